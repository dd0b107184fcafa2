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

// lemmas are the right-hand side minus the left-hand side of each case of each lemma, pair by pair from its statement in the paper. The lemma of classification
// is left out if rounding decides which views meet its condition.
func (r *reference) lemmas(t Tails, alpha float64) map[string][]float64 {
	const printed, repaired = "condition_cls_correct, printed", "condition_cls_correct, E15"
	cases := map[string][]float64{printed: nil, repaired: nil, "var_bnd": nil, "bounds_of_expt (a)": nil} // Without cases they are compared, too.
	add := func(name string, slack float64) { cases[name] = append(cases[name], slack) }
	r2, k, all := r.r*r.r, float64(r.classes), float64(len(r.z))
	d, q, delta, p := t.ClassThreshold, t.ClassTail, t.ViewThreshold, t.ViewTail
	for name, c := range map[string]float64{"sum_delta, 1/(4α)": 1 / (4 * alpha), "sum_delta, 1/(2α)": 1 / (2 * alpha)} {
		for i := range r.z {
			sum := 0.0
			for j := range r.z {
				if r.image[j] == r.image[i] {
					sum += square(r2-c) - square(r.s(i, j)-c)
				} else {
					sum += r2*r2 - square(r.s(i, j))
				}
			}
			add(name, sum-(1-1/r.d)*all*r2*r2)
		}
	}
	mean := func(members []int) []float64 {
		mean := make([]float64, len(r.z[0]))
		for _, j := range members {
			for c, x := range r.z[j] {
				mean[c] += x / float64(len(members))
			}
		}
		return mean
	}
	unsure := map[string]bool{}
	for i := range r.z {
		t2, t1, y := r.t2(i), r.t1(i), r.label[i]
		if i == t2[0] { // Once for each image.
			add("bounds_of_expt (b)", r.expect(t2, t2, identity)-(delta-math.Sqrt(5*p*(r2+delta)*r2)))
			if len(t1) > 0 {
				similar := r.expect(t2, t1, identity)
				// The first part of lemma var_bnd with p = q_T, a = −r², b = r² and c = d_T.
				add("var_bnd", q*square(d+r2)/4+square(r2-d)/4+q*square(2*r2)-(r.expect(t2, t1, square)-similar*similar))
				if d >= r2/3 {
					add("bounds_of_expt (a)", similar-(3*d/2-(0.5+math.Sqrt(6*q))*r2))
				}
			}
		}
		least := map[string]float64{printed: math.Inf(1), repaired: math.Inf(1)}
		ahead := math.Inf(1)
		own, away := mean(r.class(y)), math.Sqrt(squaredDistance(r.z[i], mean(t2)))
		for other := range r.classes {
			if other == y {
				continue
			}
			members := r.class(other)
			similar, theirs := r.expect(t2, members, identity), mean(members)
			if i == t2[0] { // |T1| is (n − 1) m, |T2| is m, |D(k)| is n m and N is K n m.
				part, whole := float64(len(t2)), float64(len(members))
				root := math.Sqrt(k*whole*r2*r2/r.d + 30*part*r2*r2 - whole*d*d)
				add("bounds_of_expt (c)", (root+math.Sqrt(float64(len(t1))*q)*d+math.Sqrt(part*p)*delta)/math.Sqrt(whole)-similar)
			}
			margin, gap := r.expect(t2, r.class(y), identity)-similar, dot(own, own)-dot(theirs, theirs)
			least[printed], least[repaired] = min(least[printed], margin-4*r.r*away), min(least[repaired], margin-2*r.r*away-gap/2)
			ahead = min(ahead, squaredDistance(r.z[i], theirs)-squaredDistance(r.z[i], own))
		}
		for name, margin := range least {
			if math.Abs(margin) < 1e-9*r2 {
				unsure[name] = true
			} else if margin > 0 {
				add(name, ahead)
			}
		}
	}
	for name := range unsure {
		delete(cases, name)
	}
	return cases
}

func TestLemmasOnRandomFeatures(t *testing.T) {
	fails, compared := map[string]int{}, map[string]int{}
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 6))
		f := sample(rng)
		r2 := f.Radius * f.Radius
		tails, err := f.Tails(r2*rng.Float64(), r2*rng.Float64())
		if err != nil {
			t.Fatal(err)
		}
		alpha := (0.125 + 0.125*rng.Float64()) / r2
		want := newReference(f).lemmas(tails, alpha)
		for _, c := range f.Lemmas(tails, alpha) {
			if c.Fails > 0 {
				fails[c.Name]++
			}
			if c.Cases < c.Fails || (c.Cases == 0) != math.IsInf(c.Slack, 1) {
				t.Fatalf("%+v", c)
			}
			slacks, sure := want[c.Name]
			if !sure {
				continue
			}
			compared[c.Name]++
			least := math.Inf(1)
			for _, slack := range slacks {
				least = min(least, slack)
			}
			scale := r2 * r2 * float64(f.Len())
			if c.Cases != len(slacks) || !(math.Abs(c.Slack-least) <= 1e-11*max(r2, scale)) && c.Slack != least {
				t.Errorf("seed %d: %+v, want %d cases and least slack %g", seed, c, len(slacks), least)
			}
		}
	}
	t.Log("sets on which lemmas fail, of 3000:", fails)
	for _, c := range RandomLabels(2, 2, 2, 0.1, 1).Lemmas(Tails{}, 0.2) {
		if compared[c.Name] < 1000 {
			t.Errorf("%s was compared on %d sets", c.Name, compared[c.Name])
		}
	}
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
	if plus := (1-q)*(1-d)*(1-d)/4 + q*(1+d)*(1+d)/4 + q; !(math.Abs(q-0.095) <= 1e-12) || plus > variance-0.1 {
		t.Errorf("q_T %g: variance %g, with plus signs %g", q, variance, plus)
	}
	// (0.1² + 0.095·1.9²)/4 + 4·0.095 = 0.4682, minus the variance 1 − 0.81² = 0.3439.
	if c := check(t, f, tails, "var_bnd"); c.Cases != 4 || c.Fails != 0 || math.Abs(c.Slack-(0.4682375-0.3439)) > 1e-12 {
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
		if c.Fails != 0 || !(math.Abs(c.Slack) <= 1e-9) {
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
		// C_ij by its definition, from the pairs of views of each image.
		r, mean := newReference(f), float64(f.Groups()*f.Views*f.Views)
		rms := make([]float64, f.Dim)
		for c := range rms {
			rms[c] = math.Sqrt(mat.Dot(f.Z.ColView(c), f.Z.ColView(c)) / float64(f.Len()))
		}
		alignment, diversity := 0.0, 0.0
		for i := range f.Dim {
			for j := range f.Dim {
				sum := 0.0
				for k := range r.z {
					for _, l := range r.t2(k) {
						if rms[i]*rms[j] > 0 {
							sum += r.z[k][i] / rms[i] * r.z[l][j] / rms[j] / mean
						}
					}
				}
				if i == j {
					alignment += (1 - sum) * (1 - sum)
				} else {
					diversity += sum * sum
				}
			}
		}
		close(t, "Σ (1 − C_ii)²", b.Alignment, alignment, 1)
		close(t, "Σ C_ij²", b.Diversity, diversity, float64(f.Dim*f.Dim))
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
