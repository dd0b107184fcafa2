package theory

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// proof asserts every step of docs/theory.md on one set of features, with independent sums over pairs.
func proof(t *testing.T, f *Features, tails Tails) {
	t.Helper()
	r := newReference(f)
	r2 := r.r * r.r
	omega := f.CorrelationPeak()
	setting := f.Setting
	repaired := setting.Repaired(tails, omega)
	moments := f.MomentBound()
	rho, kappa := repaired.Within, repaired.Across
	delta, d, p, q := tails.ViewThreshold, tails.ClassThreshold, tails.ViewTail, tails.ClassTail
	slack := 1e-9 * r2
	atMost := func(link string, a, b float64) {
		if !(a <= b+slack) {
			t.Helper() // Not above: it looks for the caller's line, which takes longer than the proof.
			t.Errorf("%s: %g > %g (K %d n %d m %d d %d r %g, δ %g d_T %g)", link, a, b, f.Classes, f.Images, f.Views, f.Dim, f.Radius, delta, d)
		}
	}
	means, classMeans := f.ImageMeans(), f.ClassMeans()
	norm := func(x []float64) float64 { return math.Sqrt(dot(x, x)) }
	minus := func(a, b []float64) []float64 {
		c := make([]float64, len(a))
		for i := range c {
			c[i] = a[i] - b[i]
		}
		return c
	}
	far, wrongViews := 0, 0
	classified := f.Classify()
	for g := range f.Groups() {
		first := g * f.Views
		y := f.ClassOf(first)
		mean, own := means.RawRowView(g), classMeans.RawRowView(y)
		t2, t1, class := r.t2(first), r.t1(first), r.class(y)

		// Theorem 2, steps 1 and 2: the means of similarities of views and of images of a class.
		inView, inClass := r.expect(t2, t2, identity), r.expect(t2, t1, identity)
		atMost("views", (1-p)*delta-p*r2, inView)
		within := r.expect(t2, class, identity)
		if f.Images > 1 {
			atMost("images", (1-q)*d-q*r2, inClass)
		}
		atMost("ρ", rho, within)
		atMost("within is z̄ᵀμ", math.Abs(within-dot(mean, own)), 0)
		atMost("spread", r2-dot(mean, mean), r2-delta+p*(r2+delta))

		// Lemma 2: the squared similarities to all classes are those with C.
		corr := 0.0
		for _, j := range t2 {
			corr += r.correlated(j) / r.m
		}
		squares := 0.0
		for k := range f.Classes {
			squares += r.expect(t2, r.class(k), square) / float64(f.Classes)
		}
		atMost("Lemma 2, equality", math.Abs(squares-corr), 0)
		across := float64(f.Classes)*corr - r.expect(t2, class, square)
		atMost("κ of the image", across, kappa*kappa)
		least, farthest, border := math.Inf(1), 0.0, math.Inf(1) // min ‖μ_k‖², L_y and t_g.
		for k := range f.Classes {
			if k == y {
				continue
			}
			other := classMeans.RawRowView(k)
			e := r.expect(t2, r.class(k), identity)
			atMost("e_k is z̄ᵀμ_k", math.Abs(e-dot(mean, other)), 0)
			atMost("e_k² ≤ E s²", e*e, r.expect(t2, r.class(k), square))
			atMost("E s² ≤ κ_i²", r.expect(t2, r.class(k), square), across)
			atMost("|e_k| ≤ κ", math.Abs(e), kappa)

			// Lemma 1, and the margins of theorem 2, steps 4 and 5.
			gap := (dot(own, own) - dot(other, other)) / 2
			atMost("gap of norms", gap, (r2-rho)/2)
			apart := norm(minus(own, other))
			atMost("class means apart", apart*apart, 2*(r2+kappa))
			atMost("Γ", repaired.Margin, within-e-gap)
			least, farthest = min(least, dot(other, other)), max(farthest, apart)
			if apart > slack {
				border = min(border, (within-e-gap)/apart)
			} else {
				border = 0
			}
			for _, i := range t2 {
				distance := norm(minus(r.z[i], mean))
				nearer := square(norm(minus(r.z[i], other))) - square(norm(minus(r.z[i], own)))
				atMost("Lemma 1", 2*(within-e-gap)-2*distance*apart, nearer)
				if within-e >= 2*r.r*distance+gap+slack && nearer < 0 {
					t.Error("erratum E15's condition does not suffice")
				}
			}
		}
		// Theorems 1 and 3 for the image: its margin, its distance from the border, and the share of its views that may be wrong.
		margin, spread, wrong := within-math.Sqrt(max(0, across))-(dot(own, own)-least)/2, 0.0, 0.0
		for _, i := range t2 {
			distance := norm(minus(r.z[i], mean))
			spread += distance * distance / r.m
			if distance*math.Sqrt(2*(r2+kappa)) >= repaired.Margin {
				far++
			}
			if classified[i] != y {
				wrongViews++
				wrong += 1 / r.m
			}
		}
		atMost("Γ ≤ Γ of the image", repaired.Margin, margin)
		atMost("V is r² − ‖z̄‖²", math.Abs(spread-(r2-dot(mean, mean))), 0)
		if margin > slack {
			atMost("L > 0 where Γ > 0", slack, farthest)
			atMost("Γ/L ≤ t", margin/farthest, border)
			atMost("wrong views ≤ L²V/Γ²", wrong, min(1, farthest*farthest*spread/(margin*margin)))
		}
		if border > slack {
			atMost("wrong views ≤ V/t²", wrong, min(1, spread/(border*border)))
		}
	}
	truth := r.errorRate()
	if repaired.Margin > slack {
		atMost("‖μ‖² ≥ ρ", rho, minSquare(f))
		if wrongViews > far {
			t.Errorf("%d views are wrong, %d are far from their image's mean", wrongViews, far)
		}
		atMost("κ < r²", kappa, r2)
		atMost("theorem 2 halves erratum E14's", 2*repaired.Value, repaired.First)
	}
	atMost("error ≤ geometric", truth, moments.Geometric)
	atMost("geometric ≤ moments", moments.Geometric, moments.Value)
	atMost("moments ≤ repaired", moments.Value, repaired.Value)
	atMost("inside", moments.Margined, moments.Inside)
}

func minSquare(f *Features) float64 {
	least := math.Inf(1)
	means := f.ClassMeans()
	for k := range f.Classes {
		least = min(least, dot(means.RawRowView(k), means.RawRowView(k)))
	}
	return least
}

func TestEveryLinkOfTheRepairedProof(t *testing.T) {
	speaks, momentsSpeak := 0, 0
	for seed := range uint64(4000) {
		rng := rand.New(rand.NewPCG(seed, 4))
		f := sample(rng)
		r2 := f.Radius * f.Radius
		tails, err := f.Tails(r2*rng.Float64(), r2*rng.Float64())
		if err != nil {
			t.Fatal(err)
		}
		if rng.IntN(2) == 0 { // The best thresholds, where the bound is non-vacuous.
			curves, err := f.TailCurves(f.Thresholds(20))
			if err != nil {
				t.Fatal(err)
			}
			omega := f.CorrelationPeak()
			tails, _ = curves.Best(func(t Tails) Bound { return f.Setting.Repaired(t, omega).Bound })
		}
		if f.Setting.Repaired(tails, f.CorrelationPeak()).Verdict() == NonVacuous {
			speaks++
		}
		if f.MomentBound().Value < 1 {
			momentsSpeak++
		}
		proof(t, f, tails)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("of 4000 sets, the repaired bound is non-vacuous on %d and its moment form on %d", speaks, momentsSpeak)
	if speaks < 100 || momentsSpeak < 2*speaks {
		t.Errorf("the bounds are non-vacuous on %d and %d sets, too few to test them", speaks, momentsSpeak)
	}
}

// TestEqualClassMeans: class means that differ only by rounding have no border between them.
func TestEqualClassMeans(t *testing.T) {
	f := sample(rand.New(rand.NewPCG(15221, 77)))
	if b := f.MomentBound(); f.Error() != 0.775 || b.Geometric < f.Error() {
		t.Errorf("error %g, geometric bound %g", f.Error(), b.Geometric)
	}
}

// best are the theorems at the thresholds where each says most.
func best(t *testing.T, f *Features) (printed Bound, repaired Repaired) {
	t.Helper()
	a, err := f.Compare(200)
	if err != nil {
		t.Fatal(err)
	}
	return a.Printed, a.Repaired
}

func TestRandomLabelsRefuteThePrintedTheorem(t *testing.T) {
	f := RandomLabels(4, 1000, 2, 0.025, 1)
	printed, repaired := best(t, f)
	truth, moments := f.Error(), f.MomentBound()
	least := 1.0
	for i := range f.Len() {
		least = min(least, dot(f.row(0), f.row(i)))
	}
	t.Logf("similarity with the first view from %.4f, printed %.3g, repaired %g, moments %g, true %.4f",
		least, printed.Value, repaired.Value, moments.Value, truth)
	if printed.Verdict() != NonVacuous || printed.Value > 2e-5 {
		t.Errorf("printed bound %+v: it should promise almost no error", printed)
	}
	if truth < 0.7 || truth > 0.78 {
		t.Errorf("error %g: labels are random", truth)
	}
	if repaired.Verdict() != NoMargin || moments.Value < truth {
		t.Errorf("repaired %+v, moments %+v", repaired, moments)
	}
}

func TestOrthogonalClassesHaveATighterBound(t *testing.T) {
	for _, noise := range []float64{0.03, 0.01, 0.003} {
		f := OrthogonalClasses(4, 1000, 2, noise, 1)
		printed, repaired := best(t, f)
		moments := f.MomentBound()
		t.Logf("noise %g: printed %.4g, erratum E14 %.4g, repaired %.4g, moments %.4g, geometric %.4g, true %g",
			noise, printed.Value, repaired.First, repaired.Value, moments.Value, moments.Geometric, f.Error())
		if f.Error() != 0 || !printed.Domain || repaired.Verdict() != NonVacuous {
			t.Errorf("error %g, printed %+v, repaired %+v", f.Error(), printed, repaired)
		}
		if ratio := printed.Value / repaired.First; ratio < 4.5 || ratio > 6 {
			t.Errorf("the printed bound is %.2f times erratum E14's, not about five times", ratio)
		}
		if ratio := printed.Value / repaired.Value; ratio < 15 {
			t.Errorf("the printed bound is %.2f times the repaired one", ratio)
		}
	}
}

// ideal are the tails of an encoder that aligns all pairs except for a share tail.
func ideal(delta, d, tail float64) Tails { return Tails{delta, tail, d, tail} }

func TestBoundsGrowWithTheTails(t *testing.T) {
	printed, repaired := 0, 0 // Draws at which the bounds are finite.
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 5))
		s := Setting{Classes: 2 + rng.IntN(10), Images: 2 + rng.IntN(2000), Radius: 1 + rng.Float64()}
		s.Dim = s.Classes
		r2 := s.Radius * s.Radius
		omega := r2 * r2 / float64(s.Dim) * (1 + 0.1*rng.Float64())
		tails := Tails{r2 * (0.9 + 0.1*rng.Float64()), 0.1 * rng.Float64(), r2 * (0.9 + 0.1*rng.Float64()), 0.1 * rng.Float64()}
		worse := tails
		worse.ViewTail += 0.1 * rng.Float64()
		worse.ClassTail += 0.1 * rng.Float64()
		if s.Printed(tails).Margin > 0 {
			printed++
		}
		if s.Repaired(tails, omega).Margin > 0 {
			repaired++
		}
		if s.Printed(worse).Value < s.Printed(tails).Value || s.Repaired(worse, omega).Value < s.Repaired(tails, omega).Value {
			t.Fatalf("%+v: the bound falls from %+v to %+v", s, tails, worse)
		}
		if s.Repaired(tails, omega).Value > s.Repaired(tails, 1.1*omega).Value {
			t.Fatalf("%+v: the repaired bound falls as classes crowd together", s)
		}
	}
	if printed < 300 || repaired < 1000 {
		t.Errorf("the bounds are finite at %d and %d of 2000 draws: too few to compare", printed, repaired)
	}
}

func TestBoundsVanishInTheIdealLimit(t *testing.T) {
	s := Setting{Classes: 5, Images: 100000, Dim: 5, Radius: 2}
	omega := 16.0 / 5
	for _, gap := range []float64{1e-3, 1e-5, 1e-7} {
		tails := ideal(4*(1-gap), 4*(1-gap), gap*gap)
		if v := s.Printed(tails); !v.Domain || v.Value > 1000*gap {
			t.Errorf("printed at %g: %+v", gap, v)
		}
		if v := s.Repaired(tails, omega); !v.Domain || v.Value > 50*gap {
			t.Errorf("repaired at %g: %+v", gap, v)
		}
	}
	exact := OrthogonalClasses(4, 10, 2, 0, 1)
	if b := exact.MomentBound(); b.Value != 0 || b.Margined < 1-1e-12 {
		t.Errorf("moments of classes in orthogonal points: %+v", b)
	}
}

func TestPrintedConditionOnTheDimension(t *testing.T) {
	for _, c := range []struct {
		s     Setting
		least float64
	}{
		{Setting{Classes: 10, Images: 1e9, Dim: 10, Radius: 1}, (3 + 2*math.Sqrt(12)) / 13}, // 0.764: the informal theorem's 10/13.
		{Setting{Classes: 10, Images: 1e9, Dim: 5, Radius: 1}, 1},
		{Setting{Classes: 10, Images: 1e9, Dim: 5, Radius: 3}, 9},
	} {
		if least := c.s.LeastClassThreshold(); !(math.Abs(least-c.least) <= 1e-6*c.least) {
			t.Errorf("%+v: d_T ≥ %g, want %g", c.s, least, c.least)
		}
	}
	// The statement's own form needs more than r² even at K = d and n → ∞, and no similarity exceeds r² (erratum E6).
	if least := (3 + 2*math.Sqrt(1-1.0/13)) / math.Sqrt(13); least < 1.36 || least > 1.37 {
		t.Errorf("the condition as printed is d_T ≥ %g r²", least)
	}
	// The corrected condition is the root of 13d² − 6d + 1 − 4(K/d + 30/n) at r = 1, at which C1 without its δ_T part is 0.
	s := Setting{Classes: 7, Images: 500, Dim: 6, Radius: 1}
	d := s.LeastClassThreshold()
	if root := 13*d*d - 6*d + 1 - 4*(7.0/6+30.0/500); !(math.Abs(root) <= 1e-12) {
		t.Errorf("13d² − 6d + 1 − 4(K/d + 30/n) = %g at the condition", root)
	}
	for _, dim := range []int{4, 5, 10, 11} { // Only d = K is possible here: K/2 needs d_T > r², and the other dimensions are outside the domain.
		s := Setting{Classes: 10, Images: 1000, Dim: dim, Radius: 1}
		b := s.Printed(Tails{ViewThreshold: 1, ClassThreshold: 1})
		if b.Domain != (dim == 10) {
			t.Errorf("d = %d: %+v", dim, b)
		}
		if verdict := b.Verdict(); (verdict == Inapplicable) != (dim != 10) {
			t.Errorf("d = %d: %s", dim, verdict)
		}
	}
}

func TestVerdicts(t *testing.T) {
	inf := math.Inf(1)
	for b, want := range map[Bound]Verdict{
		{Value: 0.5, Margin: 1, Domain: true}:          NonVacuous,
		{Value: 1, Margin: 1, Domain: true}:            Vacuous,
		{Value: inf, Margin: math.NaN(), Domain: true}: NoMargin,
		{Value: inf, Margin: 1e-13, Domain: true}:      NoMargin, // Rounding.
		{Value: 0, Margin: 1}:                          Inapplicable,
	} {
		if b.Verdict() != want {
			t.Errorf("%+v is %q, not %q", b, b.Verdict(), want)
		}
	}
}

func ExampleSetting_Repaired() {
	s := Setting{Classes: 4, Images: 1000, Dim: 4, Radius: 1}
	tails := Tails{ViewThreshold: 0.999, ViewTail: 0, ClassThreshold: 0.998, ClassTail: 0}
	spread, crowded := s.Repaired(tails, 1.0/4), s.Repaired(tails, 1)
	fmt.Printf("printed %.4f, repaired %.4f (%s)\n", s.Printed(tails).Value, spread.Value, spread.Verdict())
	fmt.Printf("the same tails with all classes in one place: printed %.4f, repaired %g (%s)\n", s.Printed(tails).Value, crowded.Value, crowded.Verdict())
	// Output:
	// printed 0.0485, repaired 0.0024 (speaks)
	// the same tails with all classes in one place: printed 0.0485, repaired +Inf (no margin)
}

// Verdict says what a bound on the error rate is worth.
type Verdict string

// The verdicts.
const (
	// NonVacuous: the theorem's conditions hold and the bound is below 1.
	NonVacuous Verdict = "speaks"
	// Vacuous: the conditions hold and the bound is 1 or more.
	Vacuous Verdict = "vacuous"
	// NoMargin: the margin in the denominator is not positive, or positive only by rounding, so that the theorem says nothing.
	NoMargin Verdict = "no margin"
	// Inapplicable: a condition on d, δ_T or d_T does not hold.
	Inapplicable Verdict = "inapplicable"
)

// Verdict classifies the bound.
func (b Bound) Verdict() Verdict {
	switch {
	case !b.Domain:
		return Inapplicable
	case !(b.Margin > 0) || math.IsInf(b.Value, 1):
		return NoMargin
	case b.Value >= 1:
		return Vacuous
	}
	return NonVacuous
}
