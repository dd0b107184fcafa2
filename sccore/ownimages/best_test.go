package ownimages

import (
	"strings"
	"testing"
)

// curveOf returns a curve of undamaged diagnostics with these k-NN accuracies, at steps from 0. A negative one belongs to a damaged encoder.
func curveOf(accuracies ...float64) (c []Point) {
	for step, accuracy := range accuracies {
		g := Diagnostics{Rank: 10, Similarity: 1, Kept: 1, KNN: accuracy}
		if accuracy < 0 {
			g.Rank, g.KNN = 1, -accuracy
		}
		p := Point{Diagnostics: &g}
		p.Step = step
		c = append(c, p)
	}
	return c
}

// TestBestEncoder: with three classes and 10 held-out images k-NN decides above 78.1 %, with 50 above 53.3 %.
func TestBestEncoder(t *testing.T) {
	for name, test := range map[string]struct {
		accuracies       []float64
		classes, queries int
		best             int // The step; 0 for none.
		rule             string
	}{
		"no classes":              {[]float64{0, 0, 0}, 0, 0, 2, "There are no class folders"},
		"below guessing":          {[]float64{30, 30, 20}, 3, 10, 2, "k-NN accuracy above 78.1 %"},
		"too few images":          {[]float64{30, 100, 90}, 2, 9, 2, "So few held-out images"},
		"not above by enough":     {[]float64{60, 70, 60}, 3, 10, 2, "k-NN accuracy above 78.1 %"},
		"above with more images":  {[]float64{60, 70, 60}, 3, 50, 1, "the highest k-NN accuracy"},
		"the first of equal ones": {[]float64{90, 70, 70}, 3, 50, 1, "the highest k-NN accuracy"},
		"one above, later not":    {[]float64{60, 70, 40}, 3, 50, 1, "the highest k-NN accuracy"},
		"damaged":                 {[]float64{60, -90, 40}, 3, 50, 2, "No undamaged encoder has a k-NN accuracy above 53.3 %"},
		"all damaged":             {[]float64{60, -90, -90}, 3, 50, 0, "No undamaged encoder has a k-NN accuracy above 53.3 %"},
	} {
		c, best, v := curveOf(test.accuracies...), 0, verdict{true, test.classes, test.queries}
		for step := range c {
			if v.improved(c[:step+1]) {
				best = step
			}
		}
		if best != test.best {
			t.Errorf("%s: best is step %d, want %d", name, best, test.best)
		}
		if _, _, ok := v.best(c); ok != (best > 0) {
			t.Errorf("%s: there is a best encoder: %t", name, ok)
		}
		short, rule := v.rule(c)
		if !strings.Contains(rule, test.rule) || (short == "by k-NN") != strings.Contains(rule, "highest k-NN") {
			t.Errorf("%s: rule %q, %q", name, short, rule)
		}
	}
}
