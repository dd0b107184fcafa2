package theory

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// toy is a small problem: the images of a class share half of their parts, and views are crops.
var toy = Toy{Classes: 3, Images: 4, Views: 3, Parts: 8, Size: 12, Shared: 0.5, Crop: 0.25, Noise: 0.02, Seed: 1}

func problem(t *testing.T, toy Toy, alpha, lipschitz float64) OP1 {
	t.Helper()
	inputs, err := toy.Inputs()
	if err != nil {
		t.Fatal(err)
	}
	return OP1{Inputs: inputs, Classes: toy.Classes, Images: toy.Images, Views: toy.Views, Dim: toy.Classes, Radius: 1,
		Alpha: alpha, Lipschitz: lipschitz, Starts: 2, Seed: 7}
}

func solve(t *testing.T, p OP1) *Solution {
	t.Helper()
	s, err := p.Solve()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestGradientOfTheAugmentedLagrangian(t *testing.T) {
	p := problem(t, toy, 0.2, 2)
	random := rand.New(rand.NewPCG(1, 1))
	count := 36
	a := &augmented{problem: p, floor: p.floors(), weight: 3, shift: mat.NewDense(count, count, nil), z: mat.NewDense(count, 3, nil),
		gradient: mat.NewDense(count, 3, nil), similarity: mat.NewDense(count, count, nil), pull: mat.NewDense(count, count, nil), grad: make([]float64, count*3)}
	for i := range count {
		for j := range i {
			shift := random.Float64()
			a.shift.Set(i, j, shift)
			a.shift.Set(j, i, shift)
		}
	}
	y := make([]float64, count*3)
	for i := range y {
		y[i] = random.NormFloat64()
	}
	a.value(y)
	gradient, largest := slices.Clone(a.grad), 0.0
	for _, g := range gradient {
		largest = max(largest, math.Abs(g))
	}
	for i := range y {
		const step = 1e-5
		at := func(x float64) float64 {
			moved := slices.Clone(y)
			moved[i] = x
			return a.value(moved)
		}
		if numeric := (at(y[i]+step) - at(y[i]-step)) / (2 * step); !(math.Abs(numeric-gradient[i]) <= 1e-6*largest) {
			t.Errorf("entry %d: gradient %g, finite differences %g", i, gradient[i], numeric)
		}
	}
}

func TestOP0ReachesItsGlobalOptimum(t *testing.T) {
	p := problem(t, toy, 0.2, math.Inf(1)) // 12 images in 3 dimensions: perfect alignment and isotropy are possible together.
	s := solve(t, p)
	rank := s.Features.EffectiveRank()
	if s.Objective > 1e-12 || !(math.Abs(rank-3) <= 1e-5) || s.Active != 0 {
		t.Errorf("objective %g, effective rank %g, active %g", s.Objective, rank, s.Active)
	}
	if again := solve(t, p); !mat.Equal(again.Features.Z, s.Features.Z) {
		t.Error("the same problem has a different solution")
	}
}

func TestASmallLipschitzConstantCollapses(t *testing.T) {
	s := solve(t, problem(t, toy, 0.2, 0.01))
	if want := (1 - 1.0/3) / 2; math.Abs(s.Diversity-want) > 1e-3 { // ½ (r⁴ − r⁴/d) in one point.
		t.Errorf("diversity loss %g, want %g", s.Diversity, want)
	}
}

func TestSolutionsMeetTheOptimalityConditions(t *testing.T) {
	failing, negative := 0, 0
	for seed := range uint64(4) {
		toy := toy
		toy.Seed = seed
		p := problem(t, toy, 0.2, 1.5)
		s := solve(t, p)
		if s.Violation > 1e-5 || s.Active == 0 || s.Gradient > 0.01 {
			t.Errorf("seed %d: violation %g, active %g, gradient %g", seed, s.Violation, s.Active, s.Gradient)
		}
		close(t, "objective", s.Objective, s.Alignment+p.Alpha*s.Diversity, 1)
		// Sum − target of lemma sum_delta, computed from the multipliers: erratum E13 derived another way.
		n := float64(s.Features.Len())
		for i, deltas := range s.Features.Deltas(1 / (2 * p.Alpha)) {
			want := s.Norm[i] * n * n / (2 * p.Alpha)
			for j := range s.Features.Len() {
				want += s.Multipliers.At(i, j) / p.Alpha * (1 - dot(s.Features.row(i), s.Features.row(j)))
			}
			got := deltas.Sum() - s.Features.DeltaTarget()
			if !(math.Abs(got-want) <= 1e-6*n) {
				t.Errorf("seed %d view %d: sum − target is %g, multipliers say %g", seed, i, got, want)
			}
			if got > 1e-3 && s.Norm[i] < 0 { // The other term compensates.
				negative++
			}
		}
		tails, err := s.Features.Tails(0.9, 0.8)
		if err != nil {
			t.Fatal(err)
		}
		proof(t, s.Features, tails)
		for _, check := range s.Features.Lemmas(tails, p.Alpha) {
			switch {
			case strings.HasPrefix(check.Name, "sum_delta"):
				failing += check.Fails
			case check.Name != "condition_cls_correct, printed" && check.Name != "bounds_of_expt (c)" && check.Fails > 0:
				t.Errorf("seed %d: %+v", seed, check)
			}
		}
	}
	if failing == 0 {
		t.Error("lemma sum_delta holds at all optima, which contradicts erratum E13")
	}
	if negative == 0 {
		t.Error("lemma sum_delta holds nowhere with a negative multiplier of the norm, which contradicts erratum E13")
	}
}

// TestSharedPatternsConcentrateClasses checks that shared patterns bring classes together, and that random crops keep them together at a Lipschitz
// constant at which whole images, or one crop for all views, do not.
func TestSharedPatternsConcentrateClasses(t *testing.T) {
	errorOf := func(change func(*Toy)) float64 {
		sum := 0.0
		for seed := range uint64(10) {
			toy := Toy{Classes: 3, Images: 6, Views: 4, Parts: 8, Size: 16, Shared: 0.5, Crop: 0.25, Noise: 0.02, Seed: seed}
			change(&toy)
			sum += solve(t, problem(t, toy, 0.2, 8)).Features.Error() / 10
		}
		return sum
	}
	both := errorOf(func(*Toy) {})
	for name, change := range map[string]func(*Toy){
		"whole images":       func(toy *Toy) { toy.Crop = 1 },
		"one crop for all":   func(toy *Toy) { toy.SameCrop = true },
		"no shared patterns": func(toy *Toy) { toy.Shared = 0 },
	} {
		without := errorOf(change)
		t.Logf("%s: error %.3f against %.3f with crops and shared patterns; chance 0.667", name, without, both)
		if both > 0.2 || without < both+0.1 {
			t.Errorf("%s: error %.3f, with crops and shared patterns %.3f", name, without, both)
		}
	}
}

func TestBadProblemsAreRefused(t *testing.T) {
	good := problem(t, toy, 0.2, 1)
	for want, change := range map[string]func(*OP1){
		"36 inputs do not make 3 ≥ 2 classes of 5 images": func(p *OP1) { p.Images = 5 },
		"dimension 0": func(p *OP1) { p.Dim = 0 },
		"radius -1":   func(p *OP1) { p.Radius = -1 },
		"α = 0":       func(p *OP1) { p.Alpha = 0 },
		"φ_f = -1":    func(p *OP1) { p.Lipschitz = -1 },
	} {
		bad := good
		change(&bad)
		if _, err := bad.Solve(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	for want, change := range map[string]func(*Toy){
		"1 classes": func(t *Toy) { t.Classes = 1 }, "0 parts": func(t *Toy) { t.Parts = 0 },
		"shared 2": func(t *Toy) { t.Shared = 2 }, "crop 0": func(t *Toy) { t.Crop = 0 }, "noise -1": func(t *Toy) { t.Noise = -1 },
	} {
		bad := toy
		change(&bad)
		if _, err := bad.Inputs(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestToyViewsShowWhatTheyShould(t *testing.T) {
	distance := func(x *mat.Dense, i, j int) float64 {
		sum := 0.0
		for c, v := range x.RawRowView(i) {
			sum += (v - x.At(j, c)) * (v - x.At(j, c))
		}
		return sum
	}
	toy := Toy{Classes: 2, Images: 30, Views: 2, Parts: 8, Size: 16, Shared: 0, Crop: 1, Seed: 3}
	inputs := func() *mat.Dense {
		x, err := toy.Inputs()
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	if x := inputs(); distance(x, 0, 1) > 1e-20 || distance(x, 0, 2) < 0.01 {
		t.Error("without crops the views of an image should be equal, and images should differ")
	}
	toy.Crop, toy.SameCrop = 0.25, true
	if x := inputs(); distance(x, 0, 1) > 1e-20 {
		t.Error("one crop for all views should make them equal")
	}
	toy.SameCrop, toy.Shared = false, 1
	if x := inputs(); distance(x, 0, 1) > 1e-20 || distance(x, 0, 2) > 1e-20 || distance(x, 0, 60) < 0.01 {
		t.Error("if all parts are shared, the images of a class should be equal")
	}
	toy.Shared = 0
	equal, x := 0, inputs()
	for a := range 60 {
		if distance(x, 2*a, 2*a+1) < 1e-20 {
			equal++
		}
	}
	if equal > 20 { // One in eight by chance.
		t.Errorf("%d of 60 pairs of crops are equal", equal)
	}
}

func ExampleOP1_Solve() {
	inputs, _ := toy.Inputs()
	p := OP1{Inputs: inputs, Classes: 3, Images: 4, Views: 3, Dim: 3, Radius: 1, Alpha: 0.2, Lipschitz: 1.5, Starts: 3}
	s, _ := p.Solve()
	fmt.Printf("error %.2f, objective %.4f\n", s.Features.Error(), s.Objective)
	// Output: error 0.00, objective 0.0011
}
