package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// mover is a group of launches of one kind on arrays of the same shapes.
type mover struct {
	what, example string
	launches      float64
	bytes, share  float64 // share is that of the roof, in seconds.
	ofPairs       bool
}

// least is the number of bytes of an operand that a group is named after.
const least = 1 << 20

// count adds an instruction that runs n times to its group.
func (f *figures) count(in instruction, shapes map[string]string, n, moved, seconds float64, ofPairs bool) {
	what := in.op
	switch in.op {
	case "fusion":
		what = in.attribute("kind=")
	case "custom-call":
		_, after, _ := strings.Cut(in.rest, `custom_call_target="`)
		what, _, _ = strings.Cut(after, `"`)
	}
	var reads []string
	for _, operand := range in.operands {
		if bytesOf(shapes[operand]) >= least {
			reads = append(reads, brief(shapes[operand]))
		}
	}
	what += " " + strings.Join(reads, ", ") + " → " + brief(in.shape)
	if f.movers == nil {
		f.movers = map[string]*mover{}
	}
	if f.movers[what] == nil {
		f.movers[what] = &mover{what: what, example: in.name, ofPairs: ofPairs}
	}
	m := f.movers[what]
	m.launches, m.bytes, m.share = m.launches+n, m.bytes+n*moved, m.share+n*seconds
}

// brief is a shape without layouts.
func brief(shape string) string {
	var all []string
	for _, a := range arraysOf(shape) {
		all = append(all, fmt.Sprintf("%s%v", a.dtype, a.dims))
	}
	return strings.Join(all, "+")
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
		pairs := ""
		if m.ofPairs {
			pairs = " (CoTAP)"
		}
		fmt.Fprintf(out, "%8.3f %8.2f %8.0f  %s %s%s\n", m.share*1e3, m.bytes/1e9, m.launches, m.what, m.example, pairs)
	}
}
