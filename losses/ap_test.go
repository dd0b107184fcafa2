package losses_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/semcon/semcon/losses"
)

func TestAPHandCases(t *testing.T) {
	q := []float64{0.9, 0.8, 0.2, 0.1}
	for _, c := range []struct {
		p         []float64
		threshold float64
		want      float64
	}{
		{[]float64{4, 3, 2, 1}, 0.5, 0},                           // Perfect.
		{[]float64{1, 2, 3, 4}, 0.5, (2./3 + 2./4) / 2},           // Reversed: ranks 3 and 4, with two negatives ahead.
		{[]float64{4, 2, 3, 1}, 0.5, (0 + 1./3) / 2},              // One negative between.
		{[]float64{1, 1, 1, 1}, 0.5, 0.5},                         // All tied: two of four not below are negatives.
		{[]float64{1, 2, 3, 4}, 0.05, 0},                          // No negatives.
		{[]float64{1, 2, 3, 4}, 0.9, 3. / 4},                      // One positive, at the end.
		{[]float64{3, 3, 3, 1}, 0.15, 0},                          // The only negative is last.
		{[]float64{2, 3, 2, 1}, 0.85, 2. / 3},                     // A tie with a negative counts against.
		{[]float64{4, 4, 4, 4}, 0.15, 1. / 4},                     // One negative tied with three positives.
		{[]float64{1, 4, 4, 4}, 0.85, 3. / 4},                     // One positive, below three tied negatives.
		{[]float64{4, 1, 3, 2}, 0.15, (0 + 1./4 + 0) / 3},         // The negative outranks one positive.
		{[]float64{0, 0, 0, 0.1}, 0.15, (1./4 + 1./4 + 1./4) / 3}, // The negative outranks three tied ones.
	} {
		p := make([]float64, len(c.p))
		for i := range p {
			p[i] = c.p[i] / 4
		}
		got, err := losses.AP(p, q, c.threshold)
		if err != nil || !(math.Abs(got-c.want) <= 1e-15) {
			t.Errorf("AP of %v at %v: %v, %v; want %v", c.p, c.threshold, got, err, c.want)
		}
	}
	if _, err := losses.AP(q, q, 0.95); err == nil {
		t.Error("no error for a threshold above all targets")
	}
	if _, err := losses.AP([]float64{2, 0, 0, 0}, q, 0.5); err == nil {
		t.Error("no error for a score of 2")
	}
}

// weightings are choices of γ; the definition takes any function.
var weightings = map[string]func(float64) float64{
	"one":     func(float64) float64 { return 1 },
	"linear":  func(q float64) float64 { return q },
	"falling": func(q float64) float64 { return math.Exp(-3 * q) },
	"step": func(q float64) float64 {
		if q > 0.5 {
			return 2
		}
		return 0
	},
}

func TestRankingLossesAgainstReference(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 11))
		levels := []int{0, 2, 5, 0}
		n := 1 + rng.IntN(30)
		p, q := scoresOf(rng, n, levels[seed%4]), scoresOf(rng, n, levels[seed/4%4])
		got, err := losses.AP(p, q, q[0])
		if want := apReference(p, q, q[0]); err != nil || !(math.Abs(got-want) <= 1e-14) {
			t.Errorf("AP %v, %v; want %v", got, err, want)
		}
		for name, weight := range weightings {
			got, err := losses.CoTAPDefinition(p, q, weight)
			if want := definitionReference(p, q, weight); err != nil || !(math.Abs(got-want) <= 1e-13) {
				t.Errorf("definition, %s: %v, %v; want %v", name, got, err, want)
			}
			got, err = losses.CoTAPBound(p, q, weight)
			if want := boundReference(p, q, weight); err != nil || !(math.Abs(got-want) <= 1e-13) {
				t.Errorf("bound, %s: %v, %v; want %v", name, got, err, want)
			}
		}
	}
}

// TestDefinitionIsBelowItsBound tests Proposition 1.
func TestDefinitionIsBelowItsBound(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 12))
	strict, equal := 0, 0
	for range 4000 {
		n := 1 + rng.IntN(25)
		p, q := scoresOf(rng, n, []int{0, 2, 4, 10}[rng.IntN(4)]), scoresOf(rng, n, []int{0, 2, 4, 10}[rng.IntN(4)])
		for name, weight := range weightings {
			definition, err := losses.CoTAPDefinition(p, q, weight)
			if err != nil {
				t.Fatal(err)
			}
			bound, err := losses.CoTAPBound(p, q, weight)
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case definition > bound*(1+1e-12):
				t.Fatalf("%s: the definition is %v, its bound %v, for p %v, q %v", name, definition, bound, p, q)
			case definition < bound*(1-1e-12):
				strict++
			default:
				equal++
			}
		}
	}
	if strict == 0 || equal == 0 {
		t.Errorf("%d bounds are strict, %d attained: the draws show one kind alone", strict, equal)
	}
}

// TestSurrogateIsAboveTheIndicator: with the loss's weights, the differentiable form is at least the counting form.
func TestSurrogateIsAboveTheIndicator(t *testing.T) {
	c := losses.CoTAP{Threshold: 0, Margin: 0.5}
	rng := rand.New(rand.NewPCG(13, 13))
	for range 300 {
		n := 2 + rng.IntN(30)
		p, q := scoresOf(rng, n, 6), scoresOf(rng, n, 6)
		loss, _, err := c.Evaluate(p, q)
		if err != nil {
			t.Fatal(err)
		}
		counted := 0.0
		for i := range p {
			lower, all := 0.0, 0.0
			for j := range p {
				if p[j] >= p[i] {
					all++
					if q[j] < q[i] {
						lower++
					}
				}
			}
			counted += q[i] * lower / all / float64(n)
		}
		if loss < counted-1e-12 {
			t.Fatalf("the surrogate is %v, the count %v", loss, counted)
		}
	}
}
