package theory

import (
	"math"
	"math/rand/v2"
	"testing"
)

// reference evaluates every quantity from its definition in the paper, pair by pair.
type reference struct {
	z               [][]float64
	label, image    []int
	classes, images int
	n, m, d, r      float64
}

func newReference(f *Features) *reference {
	r := &reference{classes: f.Classes, images: f.Images, n: float64(f.Images), m: float64(f.Views), d: float64(f.Dim), r: f.Radius}
	for i := range f.Len() {
		r.z = append(r.z, f.row(i))
		r.label, r.image = append(r.label, i/(f.Images*f.Views)), append(r.image, i/f.Views)
	}
	return r
}

func (r *reference) s(i, j int) float64 {
	if i == j {
		return r.r * r.r
	}
	sum := 0.0
	for k := range r.z[i] {
		sum += r.z[i][k] * r.z[j][k]
	}
	return min(sum, r.r*r.r)
}

// members lists T1(i), T2(i) and D(k).
func (r *reference) t1(i int) (all []int) {
	for j := range r.z {
		if r.label[j] == r.label[i] && r.image[j] != r.image[i] {
			all = append(all, j)
		}
	}
	return all
}

func (r *reference) t2(i int) (all []int) {
	for j := range r.z {
		if r.image[j] == r.image[i] {
			all = append(all, j)
		}
	}
	return all
}

func (r *reference) class(k int) (all []int) {
	for j := range r.z {
		if r.label[j] == k {
			all = append(all, j)
		}
	}
	return all
}

// viewTail is σ_i(δ); classTail is its counterpart q at d.
func (r *reference) viewTail(i int, delta float64) float64 {
	low, all := 0.0, 0.0
	for _, j := range r.t2(i) {
		for _, l := range r.t2(i) {
			all++
			if r.s(j, l) <= delta {
				low++
			}
		}
	}
	return low / all
}

func (r *reference) classTail(i int, d float64) float64 {
	low, all := 0.0, 0.0
	for _, j := range r.t2(i) {
		for _, l := range r.t1(j) {
			all++
			if r.s(j, l) <= d {
				low++
			}
		}
	}
	if all == 0 {
		return 0
	}
	return low / all
}

// expect is E over j ∈ from, l ∈ to of g(s_jl).
func (r *reference) expect(from, to []int, g func(float64) float64) float64 {
	if len(to) == 0 {
		return 0
	}
	sum := 0.0
	for _, j := range from {
		for _, l := range to {
			sum += g(r.s(j, l))
		}
	}
	return sum / float64(len(from)*len(to))
}

func identity(s float64) float64 { return s }
func square(s float64) float64   { return s * s }

// correlated is z_iᵀ C z_i = E_j[s_ij²].
func (r *reference) correlated(i int) float64 {
	sum := 0.0
	for j := range r.z {
		sum += square(r.s(i, j))
	}
	return sum / float64(len(r.z))
}

// omega is max_i E_{j ∈ T2(i)}[z_jᵀ C z_j].
func (r *reference) omega() float64 {
	peak := math.Inf(-1)
	for i := range r.z {
		sum := 0.0
		for _, j := range r.t2(i) {
			sum += r.correlated(j) / r.m
		}
		peak = max(peak, sum)
	}
	return peak
}

func (r *reference) errorRate() float64 {
	wrong := 0.0
	for i := range r.z {
		best, nearest := math.Inf(1), -1
		for k := range r.classes {
			mean := make([]float64, len(r.z[0]))
			for _, j := range r.class(k) {
				for c, x := range r.z[j] {
					mean[c] += x / (r.n * r.m)
				}
			}
			distance := 0.0
			for c, x := range r.z[i] {
				distance += square(x - mean[c])
			}
			if distance < best {
				best, nearest = distance, k
			}
		}
		if nearest != r.label[i] {
			wrong++
		}
	}
	return wrong / float64(len(r.z))
}

// printed is the bound of thm main_formal, taken literally.
func (r *reference) printed(delta, d, p, q float64) (margin, value float64) {
	r2, r4, k := r.r*r.r, math.Pow(r.r, 4), float64(r.classes)
	c1 := (2*delta+(r.n-1)*(3*d-r2))/(2*r.n) - math.Sqrt(k*r4/r.d-d*d+30*r4/r.n)
	c2 := r.r/r.n*math.Sqrt(5*(delta+r2)) + math.Sqrt(1/r.n)*delta
	c3 := (r.n-1)/r.n*math.Sqrt(6)*r2 + math.Sqrt((r.n-1)/r.n)*d
	margin = c1 - c2*math.Sqrt(p) - c3*math.Sqrt(q)
	if !(margin > 0) {
		return margin, math.Inf(1)
	}
	return margin, 32 * r2 * (r2 - delta + r.r*math.Sqrt(5*p*(delta+r2))) / (margin * margin)
}

// close checks to within 1e-12 of the scale of the computation.
func close(t *testing.T, what string, got, want, scale float64) {
	t.Helper()
	if got == want || math.IsNaN(got) && math.IsNaN(want) {
		return
	}
	if !(math.Abs(got-want) <= 1e-12*max(scale, math.Abs(want))) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestQuantitiesAgreeWithTheirDefinitions(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 2))
		f := sample(rng)
		r := newReference(f)
		r2 := r.r * r.r
		close(t, "error", f.Error(), r.errorRate(), 1)
		close(t, "omega", f.CorrelationPeak(), r.omega(), r2*r2)

		thresholds := append(f.Thresholds(5), r.s(0, r.t2(0)[len(r.t2(0))-1]))
		if later := r.t1(0); len(later) > 0 {
			thresholds = append(thresholds, r.s(0, later[0]))
		}
		delta, d := thresholds[rng.IntN(len(thresholds))], thresholds[rng.IntN(len(thresholds))]
		if rng.IntN(3) > 0 { // Rounding would decide a threshold equal to a similarity: the product may sum in another order than the reference.
			delta, d = r2*rng.Float64(), r2*rng.Float64()
		} else {
			delta, d = delta-1e-9*r2, d-1e-9*r2
		}
		tails, err := f.Tails(delta, d)
		if err != nil {
			t.Fatal(err)
		}
		p, q := 0.0, 0.0
		for i := range r.z {
			p, q = max(p, r.viewTail(i, delta)), max(q, r.classTail(i, d))
		}
		close(t, "p_T", tails.ViewTail, p, 1)
		close(t, "q_T", tails.ClassTail, q, 1)

		margin, value := r.printed(delta, d, p, q)
		printed := f.Setting.Printed(tails)
		close(t, "printed margin", printed.Margin, margin, r2)
		if margin > 1e-6*r2 {
			close(t, "printed bound", printed.Value, value, 1)
		}

		c := 1 / (4 * (1 + rng.Float64()) / (8 * r2))
		deltas := f.Deltas(c)
		for i := range r.z {
			same, view, other := 0.0, 0.0, 0.0
			for j := range r.z {
				switch s := r.s(i, j); {
				case r.label[j] != r.label[i]:
					other += r2*r2 - s*s
				case r.image[j] != r.image[i]:
					same += r2*r2 - s*s
				default:
					view += square(r2-c) - square(s-c)
				}
			}
			scale := float64(len(r.z)) * r2 * r2
			close(t, "Δ1", deltas[i].Same, same, scale)
			close(t, "Δ2", deltas[i].View, view, scale)
			close(t, "ΣΔk", deltas[i].Other, other, scale)
			close(t, "identity E13", deltas[i].Sum(), f.DeltaTarget()-deltas[i].Isotropy-deltas[i].Alignment, scale)
		}
		mean := 0.0
		for _, delta := range deltas {
			mean += delta.Isotropy / float64(f.Len()*f.Len())
		}
		close(t, "isotropy defect", mean, f.IsotropyDefect(), r2*r2)
	}
}

func TestQuantitiesOfAnEncoder(t *testing.T) {
	alone := 0
	for seed := range uint64(300) {
		f := sample(rand.New(rand.NewPCG(seed, 12)))
		if f.Radius != 1 { // The thresholds are those of the unit sphere.
			continue
		}
		const c = 2 // 1/(2α) at α = 1/4.
		r, n := newReference(f), float64(f.Len())
		surely, perhaps := 0.0, 0.0 // The share of views of which lemma sum_delta is false by more than rounding.
		want := map[string]float64{"error": r.errorRate(), "omega": r.omega(), "p": 0, "q": 0}
		for i := range r.z {
			t2, t1 := r.t2(i), r.t1(i)
			want["p"], want["q"] = max(want["p"], r.viewTail(i, 0.9)), max(want["q"], r.classTail(i, 0.5))
			same, view, other := 0.0, 0.0, 0.0
			for j := range r.z {
				switch s := r.s(i, j); {
				case r.label[j] != r.label[i]:
					other += 1 - s*s
				case r.image[j] != r.image[i]:
					same += 1 - s*s
				default:
					view += square(1-c) - square(s-c)
				}
			}
			if lack := (1-1/r.d)*n - same - view - other; lack > 1e-6 {
				surely, perhaps = surely+1/n, perhaps+1/n
			} else if lack > -1e-12 {
				perhaps += 1 / n
			}
			for name, value := range map[string]float64{
				"p_mean": r.viewTail(i, 0.9), "q_mean": r.classTail(i, 0.5), "view_similarity": r.expect(t2, t2, identity),
				"class_similarity": r.expect(t2, t1, identity), "isotropy_defect": r.correlated(i) - 1/r.d,
				"sum_delta": (same + view + other) / ((1 - 1/r.d) * n), "delta_same": same / n, "delta_other": other / n,
			} {
				want[name] += value / n
			}
		}
		moments := f.MomentBound()
		comparison, err := f.Compare(9)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]float64{
			"geometric": moments.Geometric, "moments": moments.Value, "across": moments.Across, "inside": moments.Inside, "margined": moments.Margined,
			"effective_rank": f.EffectiveRank(), "printed_margin": comparison.Printed.Margin, "repaired_margin": comparison.Repaired.Margin,
			"p_best": comparison.RepairedAt.ViewTail, "q_best": comparison.RepairedAt.ClassTail,
			"delta_best": comparison.RepairedAt.ViewThreshold, "d_best": comparison.RepairedAt.ClassThreshold,
			"printed": 1, "repaired": 1, "printed_domain": 0, // As far as a theorem does not apply.
		} {
			want[name] = value
		}
		if comparison.Printed.Domain {
			want["printed"], want["printed_domain"] = min(1, comparison.Printed.Value), 1
		}
		if comparison.Repaired.Domain {
			want["repaired"] = min(1, comparison.Repaired.Value)
		}
		if f.Images == 1 {
			delete(want, "class_similarity") // There are no pairs of images.
			alone++
		}
		got, curves, err := f.Quantities(9)
		if err != nil || !same(curves, comparison.Curves) {
			t.Fatal(curves, err)
		}
		if fails := got["sum_delta_fails"]; fails < surely-1e-9 || fails > perhaps+1e-9 {
			t.Errorf("seed %d: sum_delta fails for a share of %g, want %g to %g", seed, fails, surely, perhaps)
		}
		for name, value := range want {
			if math.IsNaN(value) || math.IsInf(value, 0) {
				if _, there := got[name]; there {
					t.Errorf("seed %d: %s is %g, want none", seed, name, got[name])
				}
				continue
			}
			if _, there := got[name]; !there {
				t.Errorf("seed %d: no %s", seed, name)
			}
			close(t, name, got[name], value, n)
		}
		for name := range got {
			if _, there := want[name]; !there && name != "sum_delta_fails" {
				t.Errorf("seed %d: %s is %g, want none", seed, name, got[name])
			}
		}
	}
	if alone == 0 {
		t.Error("no set has a single image in each class")
	}
}

func TestCurvesAreTheTailsAtEachThreshold(t *testing.T) {
	f := OrthogonalClasses(3, 7, 3, 0.4, 3)
	r := newReference(f)
	c, err := f.TailCurves(f.Thresholds(12))
	if err != nil {
		t.Fatal(err)
	}
	for i, threshold := range c.Thresholds {
		p, q, meanP, meanQ := 0.0, 0.0, 0.0, 0.0
		for j := range r.z {
			p, q = max(p, r.viewTail(j, threshold)), max(q, r.classTail(j, threshold))
			meanP, meanQ = meanP+r.viewTail(j, threshold)/float64(len(r.z)), meanQ+r.classTail(j, threshold)/float64(len(r.z))
		}
		close(t, "p_T", c.View[i], p, 1)
		close(t, "q_T", c.Class[i], q, 1)
		close(t, "mean p", c.MeanView[i], meanP, 1)
		close(t, "mean q", c.MeanClass[i], meanQ, 1)
		if i > 0 && (c.View[i] < c.View[i-1] || c.Class[i] < c.Class[i-1]) {
			t.Error("a tail falls as its threshold grows")
		}
	}
	if c.View[len(c.View)-1] != 1 {
		t.Error("a similarity is above r²")
	}
	if _, err := f.TailCurves([]float64{1, 0}); err == nil {
		t.Error("descending thresholds are not refused")
	}
	if _, err := f.Tails(math.NaN(), 0); err == nil {
		t.Error("NaN is not refused")
	}
}
