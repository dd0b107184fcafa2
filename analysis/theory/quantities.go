package theory

import (
	"fmt"
	"math"
	"slices"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore/metrics"
	"gonum.org/v1/gonum/mat"
)

// Classify is the paper's classifier G_f (eq. defi_knn_cls) on the features themselves: for each of the N views, the class with the nearest mean.
// Ties go to the lowest class.
func (f *Features) Classify() []int {
	means := f.ClassMeans()
	classes := make([]int, f.Len())
	for i := range classes {
		nearest := math.Inf(1)
		for k := range f.Classes {
			if square := squaredDistance(f.row(i), means.RawRowView(k)); square < nearest {
				nearest, classes[i] = square, k
			}
		}
	}
	return classes
}

// Error is 𝓔(f), the share of views that [Features.Classify] puts into the wrong class, in [0, 1].
func (f *Features) Error() float64 {
	wrong := lo.Filter(f.Classify(), func(class, i int) bool { return class != f.ClassOf(i) })
	return float64(len(wrong)) / float64(f.Len())
}

// Factors are the three numbers that decide over a view's class after lemma condition_cls_correct, and the error that they make.
type Factors struct {
	Within, Between float64 // Mean similarity of two views of a class, including a view with itself, and of two classes' means.
	Distance        float64 // The root mean square distance of a view from the mean of its image's views.
	Error           float64 // The share of views nearest to another class's mean.
}

// Factors computes the factors of the features.
func (f *Features) Factors() Factors {
	m, means, between := f.MomentBound(), f.ClassMeans(), 0.0
	for k := range f.Classes {
		for l := range k {
			between += mat.Dot(means.RowView(k), means.RowView(l)) * 2 / float64(f.Classes*(f.Classes-1))
		}
	}
	return Factors{Within: m.Within, Between: between, Distance: math.Sqrt(m.Spread), Error: f.Error()}
}

// Correlation is the feature correlation matrix C_f = 1/N Σ_i z_i z_iᵀ, [d, d] (section "Problem Formulation"). Its trace is r².
func (f *Features) Correlation() *mat.SymDense {
	var c mat.SymDense
	c.SymOuterK(1/float64(f.Len()), f.Z.T())
	return &c
}

// EffectiveRank is the exponential of the entropy of C_f's spectrum, in [1, d]: d if C_f = r²/d·I, the optimum of the diversity term, and 1 if all
// features lie on a line; see [metrics.EffectiveRank].
func (f *Features) EffectiveRank() float64 { return metrics.EffectiveRank(f.Correlation()) }

// IsotropyDefect is tr C_f² − r⁴/d ≥ 0: twice the diversity loss of OP0, and 0 if C_f = r²/d·I. It is what the printed lemma sum_delta leaves out,
// averaged over all views (erratum E13).
func (f *Features) IsotropyDefect() float64 {
	norm := mat.Norm(f.Correlation(), 2)
	return norm*norm - math.Pow(f.Radius, 4)/float64(f.Dim)
}

// CorrelationPeak is ω = max over images of E_{j ∈ T2}[z_jᵀ C z_j]: r⁴/d if C is isotropic, and up to r⁴ if classes crowd together. It tells the
// repaired theorem whether diversity was attained (erratum E14).
func (f *Features) CorrelationPeak() float64 { return slices.Max(f.groupMeans(f.Correlation())) }

// groupMeans are E_{j ∈ T2}[z_jᵀ M z_j] for each image.
func (f *Features) groupMeans(m mat.Symmetric) []float64 {
	var product mat.Dense
	product.Mul(f.Z, m)
	means := make([]float64, f.Groups())
	for i := range f.Len() {
		means[i/f.Views] += dot(product.RawRowView(i), f.row(i)) / float64(f.Views)
	}
	return means
}

// The values of d_T and δ_T at which q and p are reported, ascending.
const classThreshold, viewThreshold = 0.5, 0.9

// Quantities computes the theorem's quantities of an encoder's features by name, and the tail curves. Quantities without a finite value are omitted.
func (f *Features) Quantities(thresholds int) (_ map[string]float64, _ TailCurves, err error) {
	defer try.Handle(&err)
	comparison := try.E1(f.Compare(thresholds))
	curves, moments, printed, repaired, repairedAt := comparison.Curves, comparison.Moments, comparison.Printed, comparison.Repaired, comparison.RepairedAt
	tails := try.E1(f.TailCurves([]float64{classThreshold, viewThreshold}))

	// Lemma sum_delta at α = 1/(4r²), the largest that the appendix admits, in the reading that fits OP1 (c = 1/(2α)).
	fails, sum, target := 0.0, 0.0, f.DeltaTarget()
	deltas := f.Deltas(2)
	same, other := 0.0, 0.0
	for _, d := range deltas {
		sum += d.Sum() / target / float64(len(deltas))
		if d.Sum()-target < -1e-9*f.deltaScale() {
			fails += 1 / float64(len(deltas))
		}
		same += d.Same / float64(len(deltas))
		other += d.Other / float64(len(deltas))
	}
	// E over T2 × T2 is 1 − V; that over a class is n parts of which one is the image's own.
	n := float64(f.Images)
	values := map[string]float64{
		"error": comparison.Error, "geometric": moments.Geometric, "moments": moments.Value,
		"repaired": capped(repaired.Bound), "repaired_margin": repaired.Margin,
		"printed": capped(printed), "printed_margin": printed.Margin, "printed_domain": map[bool]float64{true: 1}[printed.Domain],
		"p_best": repairedAt.ViewTail, "q_best": repairedAt.ClassTail, "delta_best": repairedAt.ViewThreshold, "d_best": repairedAt.ClassThreshold,
		"p": tails.View[1], "q": tails.Class[0], "p_mean": tails.MeanView[1], "q_mean": tails.MeanClass[0],
		"view_similarity": 1 - moments.Spread, "class_similarity": (n*moments.Within - (1 - moments.Spread)) / (n - 1),
		"across": moments.Across, "inside": moments.Inside, "margined": moments.Margined,
		"omega": comparison.Omega, "effective_rank": f.EffectiveRank(), "isotropy_defect": f.IsotropyDefect(),
		"sum_delta": sum, "sum_delta_fails": fails, "delta_same": same / float64(f.Len()), "delta_other": other / float64(f.Len()),
	}
	return lo.OmitBy(values, func(_ string, value float64) bool { return math.IsNaN(value) || math.IsInf(value, 0) }), curves, nil
}

// capped caps a bound at 1, the trivial bound of an error rate, which also counts if the conditions of its theorem do not hold.
func capped(b Bound) float64 { return lo.Ternary(b.Domain, min(1, b.Value), 1) }

// Deltas are the terms of lemma sum_delta for one view i.
type Deltas struct {
	Same  float64 // Δ1 = Σ_{j ∈ T1(i)} (r⁴ − s_ij²), over other images of the same class.
	View  float64 // Δ2 = Σ_{j ∈ T2(i)} ((r² − c)² − (s_ij − c)²), over views of the same image, including i.
	Other float64 // Σ_{k ≠ y(i)} Δ(i,k), with Δ(i,k) = Σ_{j ∈ D(k)} (r⁴ − s_ij²), over the other classes.
	// Isotropy is N (z_iᵀ C z_i − r⁴/d) and Alignment is 2c Σ_{j ∈ T2(i)} (r² − s_ij): what the identity of erratum E13 subtracts.
	Isotropy, Alignment float64
}

// Sum is the left-hand side of lemma sum_delta.
func (d Deltas) Sum() float64 { return d.Same + d.View + d.Other }

// Deltas computes the terms of lemma sum_delta for every view. c is the lemma's 1/(4α), positive (see [Features.Lemmas] for the two readings of α).
//
// For every set of features, optimal or not, Sum = (1 − 1/d) N r⁴ − Isotropy − Alignment, see [Features.DeltaTarget] and erratum E13. The lemma as
// printed says Sum ≥ (1 − 1/d) N r⁴.
func (f *Features) Deltas(c float64) []Deltas {
	r2 := f.Radius * f.Radius
	size := float64(f.Images * f.Views)
	correlation := f.Correlation()
	var all mat.Dense
	all.Mul(f.Z, correlation)
	deltas := make([]Deltas, f.Len())
	for k := range f.Classes {
		class := f.class(k)
		var product mat.Dense
		product.Mul(class.Z, class.Correlation())
		for v := range f.Images * f.Views {
			i := k*f.Images*f.Views + v
			z := f.row(i)
			everywhere := float64(f.Len()) * dot(all.RawRowView(i), z) // Σ_j s_ij²
			inClass := size * dot(product.RawRowView(v), z)
			inImage := 0.0
			d := &deltas[i]
			for j := i - i%f.Views; j < i-i%f.Views+f.Views; j++ {
				s := r2
				if j != i { // Rounding would make s_ii differ from r².
					s = dot(z, f.row(j))
				}
				inImage += s * s
				d.View += (r2-c)*(r2-c) - (s-c)*(s-c)
				d.Alignment += 2 * c * (r2 - s)
			}
			d.Same = (size-float64(f.Views))*r2*r2 - (inClass - inImage)
			d.Other = (float64(f.Len())-size)*r2*r2 - (everywhere - inClass)
			d.Isotropy = everywhere - float64(f.Len())*r2*r2/float64(f.Dim)
		}
	}
	return deltas
}

// MeanDeltas is the mean of [Features.Deltas] over views, each term as a share of N r⁴.
func (f *Features) MeanDeltas(c float64) (mean Deltas) {
	share := 1 / (float64(f.Len()) * float64(f.Len()) * math.Pow(f.Radius, 4))
	for _, d := range f.Deltas(c) {
		mean.Same += d.Same * share
		mean.View += d.View * share
		mean.Other += d.Other * share
		mean.Isotropy += d.Isotropy * share
		mean.Alignment += d.Alignment * share
	}
	return mean
}

// DeltaTarget is (1 − 1/d) N r⁴, the right-hand side of lemma sum_delta.
func (f *Features) DeltaTarget() float64 {
	return (1 - 1/float64(f.Dim)) * float64(f.Len()) * math.Pow(f.Radius, 4)
}

// deltaScale is N r⁴, the scale of rounding errors of lemma sum_delta. The target itself is 0 in one dimension.
func (f *Features) deltaScale() float64 { return float64(f.Len()) * math.Pow(f.Radius, 4) }

// LemmaCheck is the result of testing one of the paper's lemmas on features.
type LemmaCheck struct {
	Name string // The lemma's LaTeX label and, if it has several readings, the reading.
	// Cases counts the instances of the lemma: views, images, or pairs of an image and a class. For a lemma with a premise, only those that meet it count.
	Cases int
	Fails int // Cases in which the conclusion is false by more than rounding.
	// Slack is the minimum over the cases of right-hand side minus left-hand side, in the units of the inequality: negative if the lemma fails, and
	// +Inf without cases. For the classification lemmas it is the minimum of ‖z − μ_k‖² − ‖z − μ_y‖².
	Slack float64
}

// String is a line of a list.
func (c LemmaCheck) String() string {
	return fmt.Sprintf("%-34s fails in %5d of %5d cases, least slack %.3g", c.Name, c.Fails, c.Cases, c.Slack)
}

func newCheck(name string) LemmaCheck { return LemmaCheck{Name: name, Slack: math.Inf(1)} }

// take counts a case with this slack, given the scale of rounding errors.
func (c *LemmaCheck) take(slack, scale float64) {
	c.Cases++
	c.Slack = min(c.Slack, slack)
	if slack < -1e-9*scale {
		c.Fails++
	}
}

// Lemmas tests each lemma of the section and its appendix on these features, at tails, with α as in OP1. A lemma that the paper states for optima of
// OP1 is tested here on any features; pass [Solution.Features] for optima.
//
//   - condition_cls_correct: as printed, and with the condition of erratum E15.
//   - sum_delta: for each view, under both readings of its constant (erratum E9): 1/(4α) with OP1's α, as printed, and 1/(2α), which the
//     proof's 1/(4α) becomes with the α/2 that OP1 has before its norm.
//   - var_bnd: the variance of similarities within a class, from the lemma's first part with p = q_T (erratum E11).
//   - bounds_of_expt (a), (b) and (c), the last with both sides divided by √|D(k)|.
func (f *Features) Lemmas(t Tails, alpha float64) []LemmaCheck {
	checks := f.classificationLemmas()
	for i, c := range []float64{1 / (4 * alpha), 1 / (2 * alpha)} {
		check := newCheck([]string{"sum_delta, 1/(4α)", "sum_delta, 1/(2α)"}[i])
		for _, deltas := range f.Deltas(c) {
			check.take(deltas.Sum()-f.DeltaTarget(), f.deltaScale())
		}
		checks = append(checks, check)
	}
	return append(checks, f.expectationLemmas(t)...)
}

// classificationLemmas test lemma condition_cls_correct: which views meet its condition for all other classes, and which of these are nearest to another mean.
func (f *Features) classificationLemmas() []LemmaCheck {
	printed, repaired := newCheck("condition_cls_correct, printed"), newCheck("condition_cls_correct, E15")
	r, r2 := f.Radius, f.Radius*f.Radius
	means, images := f.ClassMeans(), f.ImageMeans()
	for i := range f.Len() {
		y, z, image := f.ClassOf(i), f.row(i), images.RawRowView(i/f.Views)
		classMean := means.RawRowView(y)
		away := distance(z, image)
		meetsPrinted, meetsRepaired, ahead := true, true, math.Inf(1)
		for k := range f.Classes {
			if k == y {
				continue
			}
			other := means.RawRowView(k)
			margin, gap := dot(image, classMean)-dot(image, other), dot(classMean, classMean)-dot(other, other)
			meetsPrinted = meetsPrinted && margin >= 4*r*away
			meetsRepaired = meetsRepaired && margin >= 2*r*away+gap/2
			ahead = min(ahead, 2*(dot(z, classMean)-dot(z, other))-gap)
		}
		if meetsPrinted {
			printed.take(ahead, r2)
		}
		if meetsRepaired {
			repaired.take(ahead, r2)
		}
	}
	return []LemmaCheck{printed, repaired}
}

// expectationLemmas test var_bnd and bounds_of_expt for each image.
func (f *Features) expectationLemmas(t Tails) []LemmaCheck {
	variance, a, b, c := newCheck("var_bnd"), newCheck("bounds_of_expt (a)"), newCheck("bounds_of_expt (b)"), newCheck("bounds_of_expt (c)")
	r2, n, m := f.Radius*f.Radius, float64(f.Images), float64(f.Views)
	d, q, delta, p := t.ClassThreshold, t.ClassTail, t.ViewThreshold, t.ViewTail
	images := f.ImageMeans()
	var products mat.Dense
	products.Mul(images, f.ClassMeans().T())
	moments := f.classMoments()
	across := math.Sqrt(float64(f.Classes)*r2*r2/float64(f.Dim)+30*r2*r2/n-d*d) + math.Sqrt((n-1)/n*q)*d + math.Sqrt(p/n)*delta
	for g := range f.Groups() {
		y, mean := g/f.Images, images.RawRowView(g)
		views := dot(mean, mean) // E over T2 × T2.
		b.take(views-(delta-math.Sqrt(5*p*(r2+delta)*r2)), r2)
		for k := range f.Classes {
			if k != y && !math.IsNaN(across) {
				c.take(across-products.At(g, k), r2)
			}
		}
		if f.Images == 1 {
			continue
		}
		viewSquares := 0.0
		for i := g * f.Views; i < (g+1)*f.Views; i++ {
			for j := g * f.Views; j < (g+1)*f.Views; j++ {
				s := dot(f.row(i), f.row(j))
				viewSquares += s * s / (m * m)
			}
		}
		class := (n*products.At(g, y) - views) / (n - 1) // E over T2 × T1, of s and of s².
		squares := (n*moments[g] - viewSquares) / (n - 1)
		variance.take((r2-d)*(r2-d)/4+q*(r2+d)*(r2+d)/4+4*q*r2*r2-(squares-class*class), r2*r2)
		if d >= r2/3 {
			a.take(class-(3*d/2-(0.5+math.Sqrt(6*q))*r2), r2)
		}
	}
	return []LemmaCheck{variance, a, b, c}
}
