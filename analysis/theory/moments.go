package theory

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

// MomentBound is the repaired theorem with averages in place of suprema: each image's own moments replace p_T, q_T, δ_T and d_T, and the actual class
// means are used (docs/theory.md, theorem 1). There are no thresholds to choose.
type MomentBound struct {
	// Value bounds the error, in [0, 1]: the mean over images of min(1, L²V/Γ²), where an image without margin counts as wrong. V = r² − ‖z̄‖² is the
	// spread of its views about their mean z̄, L the distance from its class mean μ_y to the farthest other one, and Γ = z̄ᵀμ_y − κ − (‖μ_y‖² − min_k
	// ‖μ_k‖²)/2 with κ² = K E_{j ∈ T2}[z_jᵀ C z_j] − E_{j ∈ T2, l ∈ D(y)}[s_jl²]. It is never above [Repaired], for any thresholds.
	Value float64
	// Geometric bounds the error by the mean over images of min(1, V/t²), where t is the distance from z̄ to the nearest border of its class's cell:
	// it uses the similarity to each class mean where Value uses κ, a bound on all of them. It is never above Value. The gap between the true error
	// and Geometric is due to Chebyshev's inequality alone (docs/theory.md, theorem 3); the gap between Geometric and Value comes from treating all
	// other classes as one, by κ.
	Geometric float64
	// Margined is the share of images with Γ > 0, and Inside the share with t > 0, whose mean is classified correctly.
	Margined, Inside float64
	// Within, Across and Spread are the means over images of z̄ᵀμ_y, κ and V.
	Within, Across, Spread float64
}

// MomentBound measures the features in O(N d²) time, without looking at pairs of views.
func (f *Features) MomentBound() MomentBound {
	r2, groups := f.Radius*f.Radius, f.Groups()
	classMeans, imageMeans := f.ClassMeans(), f.ImageMeans()
	everywhere := f.groupMeans(f.Correlation())
	within := f.classMoments()
	squares := make([]float64, f.Classes) // ‖μ_k‖²
	for k := range squares {
		squares[k] = dot(classMeans.RawRowView(k), classMeans.RawRowView(k))
	}
	var products mat.Dense // z̄ᵀμ_k
	products.Mul(imageMeans, classMeans.T())

	var b MomentBound
	share := 1 / float64(groups)
	for g := range groups {
		y := g / f.Images
		mean, similar := imageMeans.RawRowView(g), products.RawRowView(g)
		spread := 0.0 // V, from differences: r² − ‖z̄‖² would lose the digits that matter.
		for i := g * f.Views; i < (g+1)*f.Views; i++ {
			for c, x := range f.row(i) {
				spread += (x - mean[c]) * (x - mean[c]) / float64(f.Views)
			}
		}
		across := math.Sqrt(max(0, float64(f.Classes)*everywhere[g]-within[g]))
		least, farthest, border := math.Inf(1), 0.0, math.Inf(1)
		for k := range f.Classes {
			if k == y {
				continue
			}
			apart := 0.0 // From the difference: subtracting squares would lose half of the digits.
			for c, x := range classMeans.RawRowView(y) {
				apart = math.Hypot(apart, x-classMeans.At(k, c))
			}
			least, farthest = min(least, squares[k]), max(farthest, apart)
			if ahead := similar[y] - similar[k] - (squares[y]-squares[k])/2; ahead > marginFloor*r2 {
				border = min(border, ahead/apart)
			} else {
				border = 0
			}
		}
		margin := similar[y] - across - (squares[y]-least)/2
		wrong, outside := 1.0, 1.0
		if margin > marginFloor*r2 {
			b.Margined += share
			wrong = min(1, farthest*farthest*spread/(margin*margin))
		}
		if border > 0 {
			b.Inside += share
			outside = min(1, spread/(border*border))
		}
		b.Value += share * wrong
		b.Geometric += share * outside
		b.Within += share * similar[y]
		b.Across += share * across
		b.Spread += share * spread
	}
	b.Value, b.Geometric = min(1, b.Value), min(1, b.Geometric) // A sum of shares may be just above 1.
	b.Margined, b.Inside = min(1, b.Margined), min(1, b.Inside)
	return b
}

// classMoments are E_{j ∈ T2, l ∈ D(y)}[s_jl²] for each image.
func (f *Features) classMoments() []float64 {
	moments := make([]float64, f.Groups())
	for k, correlation := range f.classCorrelations() {
		class := &Features{Z: f.class(k), Classes: 1, Images: f.Images, Views: f.Views, Dim: f.Dim, Radius: f.Radius}
		copy(moments[k*f.Images:], class.groupMeans(correlation))
	}
	return moments
}
