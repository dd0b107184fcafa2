package theory

import (
	"errors"
	"math"

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
			distance := 0.0
			for j, x := range f.row(i) {
				gap := x - means.At(k, j)
				distance += gap * gap
			}
			if distance < nearest {
				nearest, classes[i] = distance, k
			}
		}
	}
	return classes
}

// Error is 𝓔(f), the share of views that [Features.Classify] puts into the wrong class, in [0, 1].
func (f *Features) Error() float64 {
	wrong := 0
	for i, k := range f.Classify() {
		if k != f.ClassOf(i) {
			wrong++
		}
	}
	return float64(wrong) / float64(f.Len())
}

// Factors are the three numbers that decide over a view's class after lemma condition_cls_correct, and the error that they make.
type Factors struct {
	// Within is the mean similarity of two views of a class, a view with itself included, and Between that of two classes' means.
	Within, Between float64
	// Distance is the root mean square distance of a view from the mean of its image's views.
	Distance float64
	// Error is the share of views nearest to another class's mean.
	Error float64
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

// classCorrelations are the correlation matrices of the single classes; C_f is their mean.
func (f *Features) classCorrelations() []*mat.SymDense {
	all := make([]*mat.SymDense, f.Classes)
	for k := range all {
		all[k] = new(mat.SymDense)
		all[k].SymOuterK(1/float64(f.Images*f.Views), f.class(k).T())
	}
	return all
}

// EffectiveRank is the exponential of the entropy of C_f's spectrum, in [1, d]: d if C_f = r²/d·I, the optimum of the diversity term, and 1 if all
// features lie on a line.
//
// Source: O. Roy and M. Vetterli, The effective rank: a measure of effective dimensionality, EUSIPCO 2007.
func (f *Features) EffectiveRank() (float64, error) {
	var eigen mat.EigenSym
	if !eigen.Factorize(f.Correlation(), false) {
		return 0, errors.New("effective rank: the correlation matrix has no eigenvalues")
	}
	entropy := 0.0
	for _, value := range eigen.Values(nil) {
		if share := value / (f.Radius * f.Radius); share > 0 {
			entropy -= share * math.Log(share)
		}
	}
	return math.Exp(entropy), nil
}

// IsotropyDefect is tr C_f² − r⁴/d ≥ 0: twice the diversity loss of OP0, and 0 if C_f = r²/d·I. It is what the printed lemma sum_delta leaves out,
// averaged over all views (erratum E13).
func (f *Features) IsotropyDefect() float64 {
	norm := mat.Norm(f.Correlation(), 2)
	return norm*norm - math.Pow(f.Radius, 4)/float64(f.Dim)
}

// CorrelationPeak is ω = max over images of E_{j ∈ T2}[z_jᵀ C z_j]: r⁴/d if C is isotropic, and up to r⁴ if classes crowd together. It tells the
// repaired theorem whether diversity was attained (erratum E14).
func (f *Features) CorrelationPeak() float64 {
	peak := math.Inf(-1)
	for _, share := range f.groupMeans(f.Correlation()) {
		peak = max(peak, share)
	}
	return peak
}

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
func (f *Features) Quantities(thresholds int) (map[string]float64, TailCurves, error) {
	comparison, err := f.Compare(thresholds)
	if err != nil {
		return nil, TailCurves{}, err
	}
	curves, moments, printed, repaired, repairedAt := comparison.Curves, comparison.Moments, comparison.Printed, comparison.Repaired, comparison.RepairedAt
	rank, err := f.EffectiveRank()
	if err != nil {
		return nil, curves, err
	}
	tails, err := f.TailCurves([]float64{classThreshold, viewThreshold})
	if err != nil {
		return nil, curves, err
	}

	// Lemma sum_delta at α = 1/(4r²), the largest that the appendix admits, in the reading that fits OP1 (c = 1/(2α)).
	fails, sum, target := 0.0, 0.0, f.DeltaTarget()
	deltas := f.Deltas(2)
	same, other := 0.0, 0.0
	for _, d := range deltas {
		sum += d.Sum() / target / float64(len(deltas))
		if d.Sum() < target*(1-1e-9) {
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
		"printed": capped(printed.Bound), "printed_margin": printed.Margin, "printed_domain": indicator(printed.Domain),
		"p_best": repairedAt.ViewTail, "q_best": repairedAt.ClassTail, "delta_best": repairedAt.ViewThreshold, "d_best": repairedAt.ClassThreshold,
		"p": tails.View[1], "q": tails.Class[0], "p_mean": tails.MeanView[1], "q_mean": tails.MeanClass[0],
		"view_similarity": 1 - moments.Spread, "class_similarity": (n*moments.Within - (1 - moments.Spread)) / (n - 1),
		"across": moments.Across, "inside": moments.Inside, "margined": moments.Margined,
		"omega": comparison.Omega, "effective_rank": rank, "isotropy_defect": f.IsotropyDefect(),
		"sum_delta": sum, "sum_delta_fails": fails, "delta_same": same / float64(f.Len()), "delta_other": other / float64(f.Len()),
	}
	for name, value := range values {
		if math.IsNaN(value) || math.IsInf(value, 0) {
			delete(values, name)
		}
	}
	return values, curves, nil
}

// capped caps a bound at 1, the trivial bound of an error rate, which also counts if the conditions of its theorem do not hold.
func capped(b Bound) float64 {
	if !b.Domain {
		return 1
	}
	return min(1, b.Value)
}

func indicator(condition bool) float64 {
	if condition {
		return 1
	}
	return 0
}
