package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/samber/lo"
	"github.com/semcon/semcon/internal/steps"
	"github.com/semcon/semcon/sccore/study"
)

// h200 and h100 are the SXM modules. The program that is compiled for the first has the same launches on the second, whose memory is slower.
const h200, h100 = "NVIDIA H200", "NVIDIA H100"

// figures say what a step takes. A roof is a lower bound on time: for each launch of a kernel the longer of moving its bytes and computing its FLOP.
type figures struct {
	Step      string  `json:"step"`
	Name      string  `json:"name"`
	Launch    int     `json:"images_of_a_launch,omitzero"`
	BF16      bool    `json:"bf16,omitzero"`
	MemoryGB  float64 `json:"memory_gb"`
	DonatedGB float64 `json:"donated_gb"` // Arguments whose memory results take.
	MovedGB   float64 `json:"moved_gb"`
	RoofMS    float64 `json:"roof_ms"`
	H100MS    float64 `json:"roof_h100_ms,omitzero"`
	CoTAPMS   float64 `json:"cotap_ms"` // The part of the roof in launches on arrays of patch pairs.
	TFLOP     float64 `json:"tflop"`    // In products.
	Float32   float64 `json:"float32"`  // Their share in float32.
	Launches  int     `json:"launches"`
	Racing    int     `json:"racing"` // Scatters that add floats in an order that is not fixed.
	Images    float64 `json:"images"` // A second, at the roof.

	movers map[string]*mover // By kind.
}

// free are the operations that launch nothing.
var free = []string{"parameter", "get-tuple-element", "tuple", "bitcast", "constant", "after-all"}

var (
	aliased   = regexp.MustCompile(`\{\d*\}: \((\d+), \{\}`)
	contracts = regexp.MustCompile(`"lhs_contracting_dimensions":\[([^\]]*)\]`)
	trips     = regexp.MustCompile(`known_trip_count"?:\{"n":"(\d+)"`)
)

// read fills in the figures of an optimised program.
func (f *figures) read(text string, step steps.Step) error {
	m, err := parse(text)
	if err != nil {
		return err
	}
	f.Launch, f.BF16, f.movers = step.Images, step.BF16, map[string]*mover{}
	r := roofline{module: m, figures: f, pairs: step.Pairs}
	r.walk(m.entry, 1)
	f.MovedGB, f.TFLOP, f.RoofMS, f.H100MS, f.CoTAPMS = f.MovedGB/1e9, f.TFLOP/1e12, f.RoofMS*1e3, f.H100MS*1e3, f.CoTAPMS*1e3
	if f.TFLOP > 0 {
		f.Float32 /= f.TFLOP * 1e12
	}
	f.Images = float64(step.Images) / f.RoofMS * 1e3
	for _, computation := range m.computations {
		f.Racing += lo.CountBy(computation, func(in instruction) bool {
			return in.op == "scatter" && strings.HasPrefix(strings.TrimPrefix(in.out[0].dtype, "b"), "f") && !strings.Contains(in.rest, "unique_indices=true")
		})
	}
	_, aliases, _ := strings.Cut(m.header, "input_output_alias={")
	aliases, _, _ = strings.Cut(aliases, "entry_computation_layout")
	arguments := lo.FilterSliceToMap(m.computations[m.entry], func(in instruction) (string, float64, bool) {
		number, _, _ := strings.Cut(in.rest, ")")
		return number, in.out.bytes(), in.op == "parameter"
	})
	for _, found := range aliased.FindAllStringSubmatch(aliases, -1) {
		f.DonatedGB += arguments[found[1]] / 1e9
	}
	return nil
}

// roofline adds up the launches of a program.
type roofline struct {
	module
	*figures
	pairs int // The number of patch pairs of a step.
}

// walk adds the launches of a computation that runs some times.
func (r roofline) walk(computation string, times int) {
	results := map[string]arrays{}
	for _, in := range r.computations[computation] {
		results[in.name] = in.out
		reads := lo.Map(in.operands, func(name string, _ int) arrays { return results[name] })
		switch {
		case slices.Contains(free, in.op):
			continue
		case in.op == "while":
			count := 1
			if found := trips.FindStringSubmatch(in.rest); found != nil {
				count, _ = strconv.Atoi(found[1])
			}
			r.walk(in.attribute("body="), times*count)
			continue
		case in.op == "call" || in.op == "conditional" || in.op == "async-start":
			for _, name := range []string{"to_apply=", "calls="} {
				if called := in.attribute(name); called != "" {
					r.walk(called, times)
				}
			}
			continue
		}
		moved, flop, dtype := in.out.bytes(), 0.0, ""
		if in.op == "fusion" {
			moved += r.reads(in.attribute("calls="))
		} else {
			moved += lo.SumBy(lo.Uniq(in.operands), func(name string) float64 { return results[name].bytes() })
		}
		if in.op == "custom-call" && strings.Contains(in.rest, "cublas") {
			flop, dtype = product(in, reads[0])
		}
		isSort := func(in instruction) bool { return in.op == "sort" } // A fusion may be a sort whose input is computed in place.
		if isSort(in) || slices.ContainsFunc(r.computations[in.attribute("calls=")], isSort) {
			moved *= 2 * 4 // The passes of a radix sort, about.
		}
		seconds, n, ofPairs := study.Roof(h200, moved, flop, dtype == "bf16"), float64(times), r.ofPairs(slices.Concat(append(reads, in.out)...))
		r.Launches, r.MovedGB, r.TFLOP, r.RoofMS = r.Launches+times, r.MovedGB+n*moved, r.TFLOP+n*flop, r.RoofMS+n*seconds
		r.H100MS += n * study.Roof(h100, moved, flop, dtype == "bf16")
		if dtype == "f32" {
			r.Float32 += n * flop
		}
		if ofPairs {
			r.CoTAPMS += n * seconds
		}
		r.count(in, reads, n, moved, seconds, ofPairs)
	}
}

// reads are the bytes that a fusion reads of its parameters: of one that is only sliced or gathered from, what is taken.
func (r roofline) reads(computation string) (sum float64) {
	parameters := lo.FilterSliceToMap(r.computations[computation], func(in instruction) (string, float64, bool) {
		return in.name, in.out.bytes(), in.op == "parameter"
	})
	used := map[string]float64{}
	for _, in := range r.computations[computation] {
		for _, operand := range in.operands {
			whole, ok := parameters[operand]
			switch {
			case !ok || in.op == "dynamic-update-slice":
			case slices.Contains([]string{"slice", "dynamic-slice", "gather"}, in.op):
				used[operand] += in.out.bytes()
			default:
				used[operand] = whole
			}
		}
	}
	for name, whole := range parameters {
		sum += min(used[name], whole)
	}
	return sum
}

// product is the FLOP of a product and the dtype of its operands, of which left is the first.
func product(in instruction, left arrays) (flop float64, dtype string) {
	found := contracts.FindStringSubmatch(in.rest)
	if len(left) == 0 || len(in.out) == 0 || found == nil {
		return 0, ""
	}
	flop = 2 * float64(in.out[0].size())
	for axis := range strings.SplitSeq(strings.ReplaceAll(found[1], `"`, ""), ",") {
		if at, err := strconv.Atoi(axis); err == nil {
			flop *= float64(left[0].dims[at])
		}
	}
	return flop, left[0].dtype
}

// ofPairs reports whether a launch works on arrays with an entry per patch pair, or per pair and padding, or in the float64 that only CoTAP sums in.
func (r roofline) ofPairs(all arrays) bool {
	return r.pairs > 0 && slices.ContainsFunc(all, func(a array) bool {
		size := a.size()
		short := size >= r.pairs && len(a.dims) > 1 && slices.Max(a.dims[1:]) <= 32 // Blocks, strips and parts of the tree.
		wide := (a.dtype == "f64" || a.dtype == "s64") && size > r.pairs/100
		return short || wide || slices.Contains(a.dims, r.pairs) || size >= r.pairs && size < r.pairs+r.pairs/50
	})
}

// table prints figures side by side, under their names in JSON.
func table(out io.Writer, all []figures) {
	for _, field := range reflect.VisibleFields(reflect.TypeFor[figures]()) {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" {
			fmt.Fprintf(out, "%-24s", strings.ReplaceAll(name, "_", " "))
			for _, f := range all {
				fmt.Fprintf(out, lo.Ternary(field.Type.Kind() == reflect.Float64, "%18.4g", "%18v"), reflect.ValueOf(f).FieldByIndex(field.Index))
			}
			fmt.Fprintln(out)
		}
	}
}

// mover is a group of launches of one kind on arrays of the same shapes.
type mover struct {
	what, example string
	launches      float64
	bytes, share  float64 // share of the roof, in seconds.
	ofPairs       bool
}

// least is the number of bytes of an operand that a group is named after.
const least = 1 << 20

// count adds an instruction that runs n times to its group.
func (f *figures) count(in instruction, reads []arrays, n, moved, seconds float64, ofPairs bool) {
	what := in.op
	switch in.op {
	case "fusion":
		what = in.attribute("kind=")
	case "custom-call":
		_, after, _ := strings.Cut(in.rest, `custom_call_target="`)
		what, _, _ = strings.Cut(after, `"`)
	}
	large := lo.FilterMap(reads, func(read arrays, _ int) (string, bool) { return read.String(), read.bytes() >= least })
	what += " " + strings.Join(large, ", ") + " → " + in.out.String()
	m := f.movers[what]
	if m == nil {
		m = &mover{what: what, example: in.name, ofPairs: ofPairs}
		f.movers[what] = m
	}
	m.launches, m.bytes, m.share = m.launches+n, m.bytes+n*moved, m.share+n*seconds
}

// list prints the n groups with the most of the roof.
func (f *figures) list(out io.Writer, n int) {
	sorted := slices.SortedFunc(maps.Values(f.movers), func(a, b *mover) int {
		return cmp.Or(cmp.Compare(b.share, a.share), strings.Compare(a.what, b.what))
	})
	for i, m := range sorted[:min(n, len(sorted))] {
		if i == 0 {
			fmt.Fprintf(out, "%8s %8s %8s  launches of one kind, and one of them\n", "ms", "GB", "launches")
		}
		fmt.Fprintf(out, "%8.3f %8.2f %8.0f  %s %s%s\n", m.share*1e3, m.bytes/1e9, m.launches, m.what, m.example, map[bool]string{true: " (CoTAP)"}[m.ofPairs])
	}
}

// module is an optimised program as XLA prints it.
type module struct {
	header       string
	entry        string
	computations map[string][]instruction
}

// instruction is a line of a computation: name = shape op(operands), attributes.
type instruction struct {
	name, op string
	out      arrays // Its result.
	operands []string
	rest     string // Operands and attributes, as printed.
}

var (
	comments    = regexp.MustCompile(`/\*index=\d+\*/`)
	beginning   = regexp.MustCompile(`^(ENTRY )?%?([\w.\-]+) *\(.*\{\s*$`)
	assignment  = regexp.MustCompile(`^\s+(?:ROOT )?%?([\w.\-]+) = (\([^=]*?\)|\S+) ([a-z\-0-9]+)\((.*)$`)
	operandName = regexp.MustCompile(`%([\w.\-]+)`)
	// attributeValue is the name of a computation, a kind or the like.
	attributeValue = regexp.MustCompile(`^[%.\w\-$]*`)
	arrayShape     = regexp.MustCompile(`\b(pred|bf16|[fsu]\d+)\[([\d,]*)\]`)
)

// parse reads a program.
func parse(text string) (m module, err error) {
	m.header, _, _ = strings.Cut(text, "\n")
	m.computations = map[string][]instruction{}
	current := ""
	for i, line := range strings.Split(comments.ReplaceAllString(text, ""), "\n") {
		switch head := beginning.FindStringSubmatch(line); {
		case head != nil && line[0] != ' ':
			if current = head[2]; head[1] != "" {
				m.entry = current
			}
		case strings.HasPrefix(line, "}"):
			current = ""
		case current != "" && strings.Contains(line, " = "):
			found := assignment.FindStringSubmatch(line)
			if found == nil {
				return m, fmt.Errorf("line %d is not an instruction", i+1)
			}
			depth, rest := 1, found[4]
			end := strings.IndexFunc(rest, func(c rune) bool { // The bracket that ends the operands.
				depth += map[rune]int{'(': 1, ')': -1}[c]
				return depth == 0
			})
			operands := lo.Map(operandName.FindAllStringSubmatch(rest[:max(end, 0)], -1), func(found []string, _ int) string { return found[1] })
			m.computations[current] = append(m.computations[current], instruction{found[1], found[3], arraysOf(found[2]), operands, rest})
		}
	}
	if m.entry == "" {
		return m, fmt.Errorf("no entry computation")
	}
	return m, nil
}

// attribute is what follows a name in an instruction, up to a character that is no part of a name.
func (in instruction) attribute(name string) string {
	_, after, _ := strings.Cut(in.rest, name)
	return strings.TrimPrefix(attributeValue.FindString(after), "%")
}

// array is the shape of an array.
type array struct {
	dtype string
	dims  []int
}

func (a array) size() int { return lo.Product(a.dims) }

// arrays are the shape of a result, several for a tuple.
type arrays []array

func arraysOf(shape string) (all arrays) {
	for _, found := range arrayShape.FindAllStringSubmatch(shape, -1) {
		dims := lo.FilterMap(strings.Split(found[2], ","), func(dim string, _ int) (int, bool) { n, err := strconv.Atoi(dim); return n, err == nil })
		all = append(all, array{found[1], dims})
	}
	return all
}

// bytes is the memory of the arrays.
func (all arrays) bytes() float64 {
	return lo.SumBy(all, func(a array) float64 {
		bits, err := strconv.Atoi(strings.TrimLeft(a.dtype, "bfsu"))
		return float64(a.size()) * float64(lo.Ternary(err == nil, bits, 8)) / 8 // A pred has 8.
	})
}

// String is a shape without layouts.
func (all arrays) String() string {
	return strings.Join(lo.Map(all, func(a array, _ int) string { return fmt.Sprintf("%s%v", a.dtype, a.dims) }), "+")
}
