package theory

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// check returns the result for one lemma.
func check(t *testing.T, f *Features, tails Tails, name string) LemmaCheck {
	t.Helper()
	for _, c := range f.Lemmas(tails, 0.2/(f.Radius*f.Radius)) {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("no lemma %q", name)
	return LemmaCheck{}
}

func TestLemmasOnRandomFeatures(t *testing.T) {
	fails := map[string]int{}
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 6))
		f := sample(rng)
		r2 := f.Radius * f.Radius
		tails, err := f.Tails(r2*rng.Float64(), r2*rng.Float64())
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range f.Lemmas(tails, (0.125+0.125*rng.Float64())/r2) {
			if c.Fails > 0 {
				fails[c.Name]++
			}
			if c.Cases < c.Fails || (c.Cases == 0) != math.IsInf(c.Slack, 1) {
				t.Fatalf("%+v", c)
			}
		}
	}
	t.Log("sets on which lemmas fail, of 3000:", fails)
	// These hold for all features: the first by Cauchy's inequality, the others because a share of low pairs bounds mean and variance. The remaining
	// lemmas need an optimum, or fail.
	for _, name := range []string{"condition_cls_correct, E15", "var_bnd", "bounds_of_expt (a)", "bounds_of_expt (b)"} {
		if fails[name] > 0 {
			t.Errorf("%s fails on %d sets", name, fails[name])
		}
	}
	for _, name := range []string{"condition_cls_correct, printed", "sum_delta, 1/(4α)", "sum_delta, 1/(2α)"} {
		if fails[name] == 0 {
			t.Errorf("%s fails on no set", name)
		}
	}
}

// TestCounterexampleToTheClassificationLemma is erratum E15: perfectly aligned views, z_iᵀμ_1 = 0.3 r², ‖μ_1‖ nearly r, μ_2 = 0. The margin is
// 0.3 r² ≥ 0, and the nearest mean is μ_2.
func TestCounterexampleToTheClassificationLemma(t *testing.T) {
	const images = 100
	rows := mat.NewDense(2*images, 2, nil)
	rows.SetRow(0, []float64{0.3, math.Sqrt(1 - 0.09)})
	for i := 1; i < images; i++ {
		rows.SetRow(i, []float64{1, 0})
	}
	for i := range images {
		rows.SetRow(images+i, []float64{0, float64(1 - 2*(i%2))})
	}
	f, err := GridFeatures(rows, 2, images, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	if f.Classify()[0] != 1 {
		t.Error("the first view is nearest to the mean of class 1, which is 0")
	}
	c := check(t, f, Tails{}, "condition_cls_correct, printed")
	if c.Fails != 1 || c.Slack > -0.3 {
		t.Errorf("%+v", c)
	}
	if c := check(t, f, Tails{}, "condition_cls_correct, E15"); c.Fails != 0 || c.Cases == 0 {
		t.Errorf("%+v", c)
	}
}

// TestCounterexampleToTheVarianceLemma is erratum E11: one of twenty views of each image is opposite to the rest, so 9.5 % of similarities are −1 and
// the others 1. Their variance is 0.34;
// the second part of lemma var_bnd with plus for its minus signs says 0.18, its first part 0.47.
func TestCounterexampleToTheVarianceLemma(t *testing.T) {
	const views, d = 20, 0.9
	rows := mat.NewDense(4*views, 1, nil)
	for i := range 4 * views {
		rows.Set(i, 0, 1)
		if i%views == 0 {
			rows.Set(i, 0, -1)
		}
	}
	f, err := GridFeatures(rows, 2, 2, views, 1)
	if err != nil {
		t.Fatal(err)
	}
	tails, err := f.Tails(0.9, d)
	if err != nil {
		t.Fatal(err)
	}
	q, r := tails.ClassTail, newReference(f)
	mean := r.expect(r.t2(0), r.t1(0), identity)
	variance := r.expect(r.t2(0), r.t1(0), square) - mean*mean
	if plus := (1-q)*(1-d)*(1-d)/4 + q*(1+d)*(1+d)/4 + q; math.Abs(q-0.095) > 1e-12 || plus > variance-0.1 {
		t.Errorf("q_T %g: variance %g, with plus signs %g", q, variance, plus)
	}
	if c := check(t, f, tails, "var_bnd"); c.Cases != 4 || c.Fails != 0 {
		t.Errorf("%+v", c)
	}
}

// TestCounterexampleToSumDelta is erratum E13: the lemma fails if C_f is not isotropic, as for a single point, and holds with equality at perfect
// alignment and isotropy.
func TestCounterexampleToSumDelta(t *testing.T) {
	for _, name := range []string{"sum_delta, 1/(4α)", "sum_delta, 1/(2α)"} {
		c := check(t, RandomLabels(3, 4, 2, 0, 1), Tails{}, name)
		if c.Fails != c.Cases || math.Abs(c.Slack+24*(1-1.0/3)) > 1e-9 { // −N (r⁴ − r⁴/d).
			t.Errorf("%+v", c)
		}
		c = check(t, OrthogonalClasses(3, 4, 2, 0, 1), Tails{}, name)
		if c.Fails != 0 || math.Abs(c.Slack) > 1e-9 {
			t.Errorf("%+v", c)
		}
	}
	if n := RandomLabels(4, 500, 2, 0.025, 1); check(t, n, Tails{0.99, 0, 0.99, 0}, "bounds_of_expt (c)").Fails == 0 {
		t.Error("lemma bounds_of_expt (c) should fail on random labels")
	}
}

func TestInfoNCEIdentity(t *testing.T) {
	for seed := range uint64(100) {
		f := sample(rand.New(rand.NewPCG(seed, 8)))
		n, m, r2 := float64(f.Len()), float64(f.Views), f.Radius*f.Radius
		align, diversity := f.InfoNCE()
		if n == m {
			continue
		}
		close(t, "erratum E16", n*n*f.Alignment(), align/(n-m)+n*m*r2, n*m*r2)
		// The loss by its definition.
		r := newReference(f)
		loss := 0.0
		for i := range r.z {
			for _, j := range r.t2(i) {
				for k := range r.z {
					if r.image[k] != r.image[i] {
						loss -= math.Log(math.Exp(r.s(i, j)) / (math.Exp(r.s(i, j)) + math.Exp(r.s(i, k))))
					}
				}
			}
		}
		close(t, "InfoNCE", align+diversity, loss, n*n*m*(r2+1))
	}
}

func TestBarlowTwinsSandwich(t *testing.T) {
	printedLowFails := 0
	for seed := range uint64(300) {
		f := sample(rand.New(rand.NewPCG(seed, 9)))
		b := f.BarlowTwins()
		dead := 0.0
		for c := range f.Dim {
			if mat.Norm(f.Z.ColView(c), 2) == 0 {
				dead++ // 1 − C_ii is then 1 without any misalignment.
			}
		}
		if b.Alignment < b.Low-1e-12 || b.Alignment > b.High+dead+1e-12 {
			t.Errorf("seed %d: %+v", seed, b)
		}
		if b.Alignment > b.PrintedHigh+dead+1e-12 {
			t.Errorf("seed %d: above the paper's bound %+v", seed, b)
		}
		if b.PrintedLow > b.Alignment+1e-9 {
			printedLowFails++
		}
		// C_ij by its definition, on the first dimension.
		n := f.Len()
		square := mat.Dot(f.Z.ColView(0), f.Z.ColView(0)) / float64(n)
		c00 := 0.0
		for k := range n {
			for l := range n {
				if k/f.Views == l/f.Views && square > 0 {
					c00 += f.Z.At(k, 0) * f.Z.At(l, 0) / square / float64(f.Groups()*f.Views*f.Views)
				}
			}
		}
		if f.Dim == 1 {
			close(t, "Σ (1 − C_ii)²", b.Alignment, (1-c00)*(1-c00), 1)
		}
	}
	if printedLowFails == 0 {
		t.Error("the printed lower bound holds everywhere, which contradicts erratum E19")
	}
	if b := OrthogonalClasses(4, 50, 2, 0.03, 1).BarlowTwins(); b.PrintedLow <= b.Alignment {
		t.Errorf("small misalignment: %+v", b)
	}
}

func TestObjectiveByItsDefinition(t *testing.T) {
	for seed := range uint64(100) {
		f := sample(rand.New(rand.NewPCG(seed, 10)))
		n := f.Len()
		align := 0.0
		for i := range n {
			for j := range n {
				if i/f.Views == j/f.Views {
					for c := range f.Dim {
						align += square(f.Z.At(i, c)-f.Z.At(j, c)) / float64(2*n*n)
					}
				}
			}
		}
		close(t, "L_align", f.Alignment(), align, f.Radius*f.Radius)
		diversity := 0.0
		for a := range f.Dim {
			for b := range f.Dim {
				c := 0.0
				for i := range n {
					c += f.Z.At(i, a) * f.Z.At(i, b) / float64(n)
				}
				if a == b {
					c -= f.Radius * f.Radius / float64(f.Dim)
				}
				diversity += c * c / 2
			}
		}
		close(t, "L_div", f.Diversity(), diversity, math.Pow(f.Radius, 4))
	}
}

func ExampleFeatures_Lemmas() {
	f := RandomLabels(4, 50, 2, 0.02, 1)
	tails, _ := f.Tails(0.99, 0.99)
	for _, c := range f.Lemmas(tails, 0.25) {
		if c.Fails > 0 && !strings.HasPrefix(c.Name, "bounds") {
			fmt.Printf("%s fails in %d of %d cases\n", c.Name, c.Fails, c.Cases)
		}
	}
	// Output:
	// sum_delta, 1/(4α) fails in 400 of 400 cases
	// sum_delta, 1/(2α) fails in 400 of 400 cases
}
