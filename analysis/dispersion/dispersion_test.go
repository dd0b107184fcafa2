package dispersion

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// mean is NaN for no values.
func mean(values []float64) float64 { return floats.Sum(values) / float64(len(values)) }

// nearly checks a number; NaN equals NaN.
func nearly(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.IsNaN(want) != math.IsNaN(got) || math.Abs(got-want) > 1e-9*max(1, math.Abs(want)) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestPatchMeasuresAgreeWithTheirDefinitions(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 11))
		count, dim, bins := 2+random.IntN(40), 1+random.IntN(5), 1+random.IntN(12)
		p := Patches{Features: mat.NewDense(count, dim, nil), Class: make([]int, count), Instance: make([]int, count)}
		for i := range count {
			for c := range dim {
				p.Features.(*mat.Dense).Set(i, c, random.NormFloat64())
			}
			p.Instance[i] = random.IntN(8)
			p.Class[i] = p.Instance[i]%3 - random.IntN(2)*random.IntN(2)*4 // Some have no label,
			if p.Instance[i] == 7 {
				p.Instance[i] = -1 // and some are on no object.
			}
		}
		similarity, rates, err := p.Measure(bins)
		if err != nil {
			t.Fatal(err)
		}
		var instance, class, inter []float64
		pairs, positive := make([]int, bins), make([]int, bins)
		for i := range count {
			for j := range i {
				if p.Class[i] < 0 || p.Class[j] < 0 {
					continue
				}
				a, b := mat.Row(nil, i, p.Features), mat.Row(nil, j, p.Features)
				cosine := floats.Dot(a, b) / (floats.Norm(a, 2) * floats.Norm(b, 2))
				switch {
				case p.Instance[i] == p.Instance[j] && p.Instance[i] >= 0:
					instance = append(instance, cosine)
					continue
				case p.Class[i] == p.Class[j]:
					class = append(class, cosine)
				default:
					inter = append(inter, cosine)
				}
				for k := range rates {
					low, high := 2*float64(k)/float64(bins)-1, 2*float64(k+1)/float64(bins)-1
					if cosine >= low && (cosine < high || k == bins-1) {
						pairs[k]++
						if p.Class[i] == p.Class[j] {
							positive[k]++
						}
					}
				}
			}
		}
		nearly(t, "instance", similarity.Instance, mean(instance))
		nearly(t, "class", similarity.Class, mean(class))
		nearly(t, "inter-class", similarity.InterClass, mean(inter))
		if similarity.InstancePairs != len(instance) || similarity.ClassPairs != len(class) || similarity.InterClassPairs != len(inter) {
			t.Errorf("%+v", similarity)
		}
		if dim == 1 {
			continue // All cosines are ±1, so that rounding decides the bin.
		}
		for k, r := range rates {
			if r.Pairs != pairs[k] {
				t.Errorf("bin %d has %d pairs, want %d", k, r.Pairs, pairs[k])
			}
			nearly(t, "rate", r.Rate, float64(positive[k])/float64(pairs[k]))
		}
	}
}

func TestBadPatchesAreRefused(t *testing.T) {
	one := mat.NewDense(1, 1, []float64{1})
	for want, p := range map[string]Patches{
		"1 vectors with 0 classes and 1 instances": {one, nil, []int{0}},
		"vector 0 has length 0":                    {mat.NewDense(1, 1, nil), []int{0}, []int{0}},
		"positive rate: 0 bins":                    {one, []int{0}, []int{0}},
	} {
		if _, _, err := p.Measure(0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	s, rates, err := Patches{one, []int{-1}, []int{0}}.Measure(2)
	if err != nil || !math.IsNaN(s.Instance) || len(rates) != 2 || !math.IsNaN(rates[0].Rate) {
		t.Errorf("without labels: %+v, %v, %v", s, rates, err)
	}
}

func ExamplePatches_Measure() {
	// Two dogs and a cat have two patches each. The dogs' heads are alike, their legs are not.
	p := Patches{
		Features: mat.NewDense(6, 2, []float64{1, 0, 0.8, 0.6, 1, 0, 0.6, 0.8, -1, 0, -1, 0}),
		Class:    []int{0, 0, 0, 0, 1, 1}, Instance: []int{0, 0, 1, 1, 2, 2},
	}
	s, rates, _ := p.Measure(2)
	fmt.Printf("instance %.2f, class %.2f, inter-class %.2f\n", s.Instance, s.Class, s.InterClass)
	fmt.Printf("%.0f %% of similar pairs share their class\n", 100*rates[1].Rate)
	// Output:
	// instance 0.80, class 0.84, inter-class -0.85
	// 100 % of similar pairs share their class
}
