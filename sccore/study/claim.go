package study

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/samber/lo"
	"github.com/semcon/semcon/analysis/stats"
	"github.com/semcon/semcon/figures"
)

// Evidence is the quantity of a claim, one value per seed, with the data and settings behind it.
type Evidence struct {
	Values  []float64
	Data    []string // Identities of the data.
	Changed []string // Settings that differ from the profile's.
	Gated   int      // Number of seeds left out, because the correspondences of their runs with CoTAP were below [leastGate] at the start.
	Blind   []string // Columns that do not show training, see [Results.Blind]: no claim is read from them.
	// Images is the 95 % interval of their mean over test images, of which N says how many; N is 0 without one. See [Results.Images].
	Images stats.Interval
	Note   string // What a reader of the claim has to know about the values; optional.
}

// DetailGate is the detail of a record of a training with CoTAP that says how well its correspondences told objects at its start: the precision of the 5 % of pairs of
// objects with the highest S_t, divided by the precision of all pairs.
const DetailGate = "start_gate"

// leastGate is the gate of claims about CoTAP, which compare runs that have [DetailGate] with runs that have it not. They leave out the seeds below it.
const leastGate = 1.25

// Evidence measures the quantities of claims of one experiment, see [figures.Quantity]. Claims with equally many alternatives of
// Column stand on the same one, with the same text for "*": the first that gives values to any of them. Those of one Column choose their rows alone. random is the row of random weights, above which a column has to show training; empty for none.
func (r Results) Evidence(random string, claims ...figures.Claim) []Evidence {
	all := make([]Evidence, len(claims))
	measure := func(i, alternative int, text string) { // The first alternative that says something stays, until one has values.
		if e := r.evidence(claims[i], alternative, text, random); len(e.Values) > 0 || all[i].Note == "" && all[i].Gated == 0 {
			all[i] = e
		}
	}
	alike, most := map[int][]int{}, 0 // The claims by their number of alternatives of Column, and the most alternatives of any.
	for i, claim := range claims {
		count := 1 + strings.Count(claim.Column, or)
		alike[count] = append(alike[count], i)
		most = max(most, count, 1+strings.Count(claim.Row, or))
	}
groups:
	for count, group := range alike {
		for alternative := range most {
			// What "*" may stand for.
			texts := lo.FlatMap(group, func(i, _ int) []string { return r.matches(chosen(claims[i].Column, alternative)) })
			for _, text := range append(texts, "") { // "" is for columns without "*", if there is nothing for those with one.
				found := false
				for _, i := range group {
					measure(i, alternative, text)
					if strings.Contains(chosen(claims[i].Column, alternative), "*") == (text != "") {
						found = found || len(all[i].Values) > 0
					}
					for row := alternative + 1; count == 1 && row < most && len(all[i].Values) == 0; row++ {
						measure(i, row, text)
					}
				}
				if found {
					continue groups
				}
			}
		}
	}
	return all
}

// or separates the alternatives in a field of a claim.
const or = " | "

// chosen is one of the alternatives of a field, or the field if it has none.
func chosen(field string, alternative int) string {
	all := strings.Split(field, or)
	return all[min(alternative, len(all)-1)]
}

// matches lists what the "*" of a pattern is in columns with records.
func (r Results) matches(pattern string) []string {
	before, after, ok := strings.Cut(pattern, "*")
	if !ok {
		return nil
	}
	return lo.FilterMap(r.Columns(), func(column string, _ int) (string, bool) {
		text, starts := strings.CutPrefix(column, before)
		text, ends := strings.CutSuffix(text, after)
		return text, starts && ends && !strings.Contains(text, "/")
	})
}

// evidence measures the quantity of a claim by one of its alternatives, with a text for "*".
func (r Results) evidence(claim figures.Claim, alternative int, text, random string) (e Evidence) {
	q := claim.Quantity
	q.Column = strings.Replace(chosen(q.Column, alternative), "*", text, 1)
	q.Row, q.MinusRow = chosen(q.Row, alternative), chosen(q.MinusRow, alternative)
	r, e.Gated = r.Judged(q)
	columns, _ := columnsOf(q)
	if e.Values = r.Quantity(q); len(e.Values) == 0 {
		missing := lo.Reject(columns, func(column string, _ int) bool { return r.Recorded(q.Row, column) })
		if len(missing) > 0 && len(missing) < len(columns) {
			e.Note = fmt.Sprintf("%s is not read from a part of its columns: %s has no %s on %s data.", claim.ID, claim.Experiment, strings.Join(missing, " and no "), r.Kind)
		}
		return e
	}
	if first := path.Base(chosen(claim.Column, 0)); path.Base(q.Column) != first && !strings.Contains(first, "*") {
		e.Note = fmt.Sprintf("For %s on %s data %s stands for %s, of which there are no records.", claim.Experiment, r.records[0].Kind, q.Column, first)
	}
	if _, all := columnsOf(q); !all {
		in := lo.Map(columns, func(column string, _ int) map[int]float64 { return r.quantities(q, column) })
		unusual := lo.Filter(columns, func(_ string, i int) bool {
			return len(in[i]) > 0 && len(Usual([]map[int]float64{in[i], lo.Assign(in...)})) < 2
		})
		if len(unusual) > 0 {
			e.Note = strings.TrimSpace(e.Note + fmt.Sprintf(" %s is read without %s, which fewer than half of the seeds have.", claim.ID, strings.Join(unusual, " and ")))
		}
	}
	e.Images = r.Images(q)
	rows := rowsOf(q)
	if q.MinusColumn != "" {
		columns = append(columns, q.MinusColumn)
	}
	e.Data = r.Data(columns...)
	changed := func(settings ...string) { e.Changed = lo.Uniq(append(e.Changed, lo.Compact(settings)...)) }
	fromFile := false
	for _, column := range columns {
		changed(r.Changed(column)...)
		if random != "" && !slices.Contains(rows, random) && r.Blind(column, random, rows...) {
			e.Blind = append(e.Blind, column)
		}
		for _, row := range rows {
			for _, record := range r.Of(row, column) {
				start := record.start()
				changed(start.Encoder.Changed)
				fromFile = fromFile || start.fromFile()
			}
		}
	}
	if one := r.oneFile(columns, rows...); len(one) > 0 {
		e.Note = strings.TrimSpace(e.Note + fmt.Sprintf(" All seeds of %s in %s use the same weights file, so intervals do not include the training of the encoder.", strings.Join(one, ", "), claim.Experiment))
	}
	if fromFile {
		e.Note = strings.TrimSpace(e.Note + fmt.Sprintf(" All seeds of %s start from one file, so intervals leave out the start's share.", claim.Experiment))
	}
	return e
}

// Judged leaves out the seeds whose correspondences are too bad to judge CoTAP by, if the quantity compares rows with CoTAP with rows without it, and counts them.
func (r Results) Judged(q figures.Quantity) (_ Results, left int) {
	if q.MinusRow == "" {
		return r, 0
	}
	var weak []int
	columns, _ := columnsOf(q)
	for _, column := range columns {
		for _, row := range rowsOf(q) {
			for _, record := range r.Of(row, column) {
				gate, ok := record.Details[DetailGate]
				if ok && slices.Contains(strings.Split(q.MinusRow, " & "), row) {
					return r, 0
				}
				if ok && gate < leastGate {
					weak = append(weak, record.Seed)
				}
			}
		}
	}
	if weak == nil {
		return r, 0
	}
	judged := map[[2]string][]Record{}
	for key, records := range r.runs {
		if left := lo.Reject(records, func(record Record, _ int) bool { return slices.Contains(weak, record.Seed) }); len(left) > 0 {
			judged[key] = left
		}
	}
	r.runs = judged
	return r, len(lo.Uniq(weak))
}

// rowsOf lists the rows of a quantity, with those that are subtracted.
func rowsOf(q figures.Quantity) []string {
	return slices.Concat(strings.Split(q.Row, " < "), strings.Split(q.MinusRow, " & "))
}

// columnsOf splits the columns of a quantity, and says whether it needs all of them, or those that have been measured.
func columnsOf(q figures.Quantity) (columns []string, all bool) {
	if some := strings.Split(q.Column, " + "); len(some) > 1 {
		return some, false
	}
	return strings.Split(q.Column, " & "), true
}

// Quantity returns a quantity without alternatives, one value for each seed with its records. Seeds whose numbers are equal and of the same files of weights are one
// measurement, which counts once.
func (r Results) Quantity(q figures.Quantity) (values []float64) {
	columns, all := columnsOf(q)
	first, _, _ := strings.Cut(q.Row, " < ")
	var measured []string // What the values are of.
	in := lo.Map(columns, func(column string, _ int) map[int]float64 { return r.quantities(q, column) })
	if !all {
		in = Usual(in)
	}
	for _, seed := range r.seeds(first, columns...) {
		sum, count := 0.0, 0
		for _, values := range in {
			if value, ok := values[seed]; ok {
				sum, count = sum+value, count+1
			}
		}
		of := r.measured(q, columns, seed)
		if count > 0 && count == len(in) && !slices.Contains(measured, of) {
			values, measured = append(values, sum/float64(count)), append(measured, of)
		}
	}
	return values
}

// Usual leaves out numbers, by seed, that fewer than half of the seeds have. Means over the others are of seeds that have all of them: of one more or less they would be of something else.
func Usual(numbers []map[int]float64) []map[int]float64 {
	seeds := len(lo.UniqKeys(numbers...))
	return lo.Filter(numbers, func(bySeed map[int]float64, _ int) bool { return len(bySeed) > 0 && 2*len(bySeed) >= seeds })
}

// measured identifies what a quantity of a seed is measured on: the files of weights with the numbers that they give, or the seed where there is no such file.
func (r Results) measured(q figures.Quantity, columns []string, seed int) (of string) {
	rows := rowsOf(q)
	for _, column := range append(columns[:len(columns):len(columns)], q.MinusColumn) {
		for _, row := range rows {
			record, ok := r.OfSeed(row, column, seed)
			digest := record.start().Encoder.Digest
			if ok && digest == "" {
				return fmt.Sprint(seed)
			}
			of += fmt.Sprintf("%s %s %s %v\n", row, column, digest, record.Value)
		}
	}
	return of
}

// seeds returns the seeds of a row in columns, ascending.
func (r Results) seeds(row string, columns ...string) []int {
	seeds := lo.FlatMap(columns, func(column string, _ int) []int {
		return lo.Map(r.Of(row, column), func(record Record, _ int) int { return record.Seed })
	})
	slices.Sort(seeds)
	return slices.Compact(seeds)
}

// quantities are the values of a quantity in one of its columns by seed, for the seeds with all records.
func (r Results) quantities(q figures.Quantity, column string) map[int]float64 {
	rows, others := strings.Split(q.Row, " < "), lo.Compact(strings.Split(q.MinusRow, " & "))
	number := func(row string, seed int) (value float64, ok bool) {
		record, recorded := r.OfSeed(row, column, seed)
		value, ok = record.number(q.Detail)
		return value, ok && recorded
	}
	seeds := lo.Filter(r.seeds(rows[0], column), func(seed, _ int) bool {
		return lo.EveryBy(slices.Concat(rows, others), func(row string) bool { _, ok := number(row, seed); return ok })
	})
	mean := func(row string) float64 {
		return lo.MeanBy(seeds, func(seed int) float64 { value, _ := number(row, seed); return value })
	}
	best := lo.MaxBy(others, func(row, other string) bool { return mean(row) > mean(other) }) // By seed the better one would be too good.
	if best != "" && !r.comparable(rows[0], best, column) {
		return nil // As in tables.
	}
	values, before := map[int]float64{}, map[int]float64{}
	if q.MinusColumn != "" {
		minus := q
		minus.MinusColumn = ""
		before = r.quantities(minus, q.MinusColumn)
	}
	for _, seed := range seeds {
		value, _ := number(rows[0], seed)
		minus, _ := number(best, seed) // It is 0 without others.
		value -= minus
		if len(rows) > 1 {
			var err error
			order := lo.Map(rows, func(_ string, i int) float64 { return float64(i) })
			if value, err = stats.Spearman(order, lo.Map(rows, func(row string, _ int) float64 { value, _ := number(row, seed); return value })); err != nil {
				continue
			}
		}
		if earlier, ok := before[seed]; ok || q.MinusColumn == "" {
			values[seed] = value - earlier
		}
	}
	return values
}

// byImage reads the counts of each test image behind a record. They are empty if the record names no file, or if the file cannot be read.
func (r Record) byImage() (counts stats.ByImage) {
	content, err := os.ReadFile(filepath.Join(r.Folder, filepath.FromSlash(r.Images)))
	if err != nil || json.Unmarshal(content, &counts) != nil {
		return nil
	}
	return counts
}

// Images returns the interval over test images of a quantity, the mean over its seeds: a bootstrap in whose draws an image counts as often for each row and seed. It knows
// nothing of other seeds. N is 0 for details and for several columns, and unless all records of the rows have counts of as many images.
func (r Results) Images(q figures.Quantity) stats.Interval {
	drawn, counts, images := Results{runs: map[[2]string][]Record{}}, map[[2]string][]stats.ByImage{}, 0
	for _, row := range lo.Uniq(rowsOf(q)) { // A row minus itself is one.
		key := [2]string{row, q.Column}
		drawn.runs[key] = slices.Clone(r.runs[key])
		for _, record := range r.runs[key] {
			of := record.byImage()
			images = cmp.Or(images, len(of))
			if of == nil || len(of) != images || q.MinusColumn+q.Detail != "" {
				return stats.Interval{}
			}
			counts[key] = append(counts[key], of)
		}
	}
	mean := func(weights []int) (sum float64) {
		for key, all := range counts {
			for i, of := range all {
				drawn.runs[key][i].Value = of.Score(weights)
			}
		}
		values := drawn.quantities(q, q.Column)
		for _, seed := range slices.Sorted(maps.Keys(values)) {
			sum += values[seed]
		}
		return sum / max(float64(len(values)), 1)
	}
	if len(drawn.Quantity(q)) == 0 || images == 0 {
		return stats.Interval{}
	}
	return stats.ImageInterval(images, mean)
}
