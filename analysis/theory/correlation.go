package theory

import (
	"errors"
	"math"

	"gonum.org/v1/gonum/mat"
)

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
