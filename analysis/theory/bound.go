package theory

import (
	"math"

	"github.com/samber/lo"
	"gonum.org/v1/gonum/mat"
)

// Bound is a theorem's upper bound on the error rate for one set of numbers.
type Bound struct {
	// Value is what the formula gives, at least 0, whether or not the conditions hold; +Inf without a margin.
	Value float64
	// Margin is the root of the denominator: C1 − C2√p_T − C3√q_T for the printed theorem, Γ for the repaired one. It is NaN if it contains the root
	// of a negative number.
	Margin float64
	Domain bool // Whether the theorem's conditions on d, δ_T and d_T hold.
}

func (b Bound) better(than Bound) bool {
	if b.Domain != than.Domain {
		return b.Domain
	}
	if b.Value != than.Value {
		return b.Value < than.Value
	}
	return b.Margin > than.Margin || math.IsNaN(than.Margin) && !math.IsNaN(b.Margin)
}

// Setting is what the theorem must know about features besides their tails.
type Setting struct {
	Classes, Images, Dim int     // K ≥ 2 classes, n ≥ 1 images of each class, d dimensions.
	Radius               float64 // The length r > 0 of each vector.
}

// marginFloor is the share of r² below which a margin counts as none: rounding alone can make such a difference of similarities.
const marginFloor = 1e-12

// Printed is the paper's formal theorem (thm main_formal) with the corrected condition of erratum E6. Its proof has gaps (errata E13 to E15): the
// bound can be far below the true error. [Repaired] is one that holds. The range of α that the proof needs is not a condition of the statement
// (erratum E21), and not one here.
type Printed struct {
	Bound
	C1, C2, C3 float64 // The constants of the margin C1 − C2√p_T − C3√q_T.
}

// LeastClassThreshold is the smallest d_T that the printed theorem admits, (3 + 2√(13K/d + 390/n − 1)) r²/13, from the proof; the statement prints (3
// + 2√(K/d + 30/n − 1/13)) r²/√13, which no d_T ≤ r² meets (erratum E6). Above r² the theorem is inapplicable, as at d = K/2 for every n.
func (s Setting) LeastClassThreshold() float64 {
	ratio := float64(s.Classes) / float64(s.Dim)
	return (3 + 2*math.Sqrt(13*ratio+390/float64(s.Images)-1)) * s.Radius * s.Radius / 13
}

// Printed evaluates the theorem at tails. Its domain is K/2 ≤ d ≤ K and r² ≥ δ_T ≥ d_T ≥ [Setting.LeastClassThreshold].
func (s Setting) Printed(t Tails) Printed {
	r2, n := s.Radius*s.Radius, float64(s.Images)
	delta, d := t.ViewThreshold, t.ClassThreshold
	spread := s.Radius * math.Sqrt(5*(delta+r2)) // r √(5 (δ_T + r²))
	p := Printed{
		C1: (2*delta+(n-1)*(3*d-r2))/(2*n) - math.Sqrt(float64(s.Classes)*r2*r2/float64(s.Dim)-d*d+30*r2*r2/n),
		C2: spread/n + math.Sqrt(1/n)*delta,
		C3: (n-1)/n*math.Sqrt(6)*r2 + math.Sqrt((n-1)/n)*d,
	}
	p.Domain = s.Dim <= s.Classes && 2*s.Dim >= s.Classes && delta <= r2 && delta >= d && d >= s.LeastClassThreshold()
	p.Margin = p.C1 - p.C2*math.Sqrt(t.ViewTail) - p.C3*math.Sqrt(t.ClassTail)
	p.Value = math.Inf(1)
	if p.Margin > 0 {
		p.Value = 32 * r2 * (r2 - delta + spread*math.Sqrt(t.ViewTail)) / (p.Margin * p.Margin)
	}
	return p
}

// Repaired is the theorem that replaces the printed one (erratum E14, proved in docs/theory.md, theorem 2). It holds for every set of features: it
// assumes no optimality, no α, no Lipschitz constant and no condition on d.
type Repaired struct {
	Bound
	Within float64 // ρ, a lower bound on the mean similarity of an image to its class.
	Across float64 // κ, an upper bound on the root mean square similarity of an image to another class.
	// First is 8 r² (r² − δ_T + p_T (r² + δ_T)) / Γ², the bound as erratum E14 first states it. Value has 2 (r² + κ) for its 8 r², at most half of it, because
	// the spread of an image's views enters by its variance and two class means are at most √(2 (r² + κ)) apart. +Inf if the margin is not positive.
	First float64
}

// Repaired evaluates the theorem at tails, for features whose [Features.CorrelationPeak] is omega. With ρ and κ as above the margin is Γ = (3ρ − r²)/2 − κ. Its
// domain is 0 ≤ δ_T, d_T ≤ r² and κ² ≥ 0. No features have numbers that make κ² negative, since concentrated classes cannot fill more than K dimensions evenly.
func (s Setting) Repaired(t Tails, omega float64) Repaired {
	r2, n := s.Radius*s.Radius, float64(s.Images)
	delta, p, d, q := t.ViewThreshold, t.ViewTail, t.ClassThreshold, t.ClassTail
	square := float64(s.Classes)*omega - (n-1)/n*(1-q)*d*d - (1-p)*delta*delta/n // κ²
	b := Repaired{
		Within: ((1-p)*delta - p*r2 + (n-1)*((1-q)*d-q*r2)) / n,
		Across: math.Sqrt(max(0, square)), // Rounding may make it −1e-17.
		First:  math.Inf(1),
	}
	b.Domain = delta >= 0 && delta <= r2 && d >= 0 && d <= r2 && square >= -marginFloor*r2*r2*float64(s.Classes)
	b.Margin = (3*b.Within-r2)/2 - b.Across
	b.Value = math.Inf(1)
	if b.Margin > marginFloor*r2 {
		spread := (r2 - delta + p*(r2+delta)) / (b.Margin * b.Margin)
		b.Value, b.First = 2*(r2+b.Across)*spread, 8*r2*spread
	}
	return b
}

// MomentBound is the repaired theorem with averages in place of suprema: each image's own moments replace p_T, q_T, δ_T and d_T, and the actual class
// means are used (docs/theory.md, theorem 1). There are no thresholds to choose.
type MomentBound struct {
	// Value bounds the error, in [0, 1]: the mean over images of min(1, L²V/Γ²), where an image without margin counts as wrong. V = r² − ‖z̄‖² is the
	// spread of its views about their mean z̄, L the distance from its class mean μ_y to the farthest other one, and Γ = z̄ᵀμ_y − κ − (‖μ_y‖² − min_k
	// ‖μ_k‖²)/2 with κ² = K E_{j ∈ T2}[z_jᵀ C z_j] − E_{j ∈ T2, l ∈ D(y)}[s_jl²]. It is never above [Repaired], for any thresholds.
	Value float64
	// Geometric bounds the error by the mean over images of min(1, V/t²), where t is the distance from z̄ to the nearest border of its class's cell: it uses
	// the similarity to each class mean where Value uses κ, a bound on all of them. It is never above Value. The gap between the true error and Geometric is
	// due to Chebyshev's inequality alone (docs/theory.md, theorem 3); the gap between Geometric and Value comes from treating all other classes as one, by κ.
	Geometric              float64
	Margined, Inside       float64 // The share of images with Γ > 0, and the share with t > 0, whose mean is classified correctly.
	Within, Across, Spread float64 // The means over images of z̄ᵀμ_y, κ and V.
}

// MomentBound measures the features in O(N d²) time, without looking at pairs of views.
func (f *Features) MomentBound() MomentBound {
	r2, groups := f.Radius*f.Radius, f.Groups()
	classMeans, imageMeans := f.ClassMeans(), f.ImageMeans()
	everywhere := f.groupMeans(f.Correlation())
	within := f.classMoments()
	squares := lo.Times(f.Classes, func(k int) float64 { return dot(classMeans.RawRowView(k), classMeans.RawRowView(k)) }) // ‖μ_k‖²
	var products mat.Dense                                                                                                 // z̄ᵀμ_k
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
			apart := distance(classMeans.RawRowView(y), classMeans.RawRowView(k)) // Subtracting squares would lose half of the digits.
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
		class := &Features{f.class(k), Setting{1, f.Images, f.Dim, f.Radius}, f.Views}
		copy(moments[k*f.Images:], class.groupMeans(correlation))
	}
	return moments
}

// Comparison sets every bound on the error of one set of features beside the error itself.
type Comparison struct {
	Curves                TailCurves
	PrintedAt, RepairedAt Tails // The tails at which each theorem says most.
	Printed               Printed
	Repaired              Repaired
	Moments               MomentBound
	Error                 float64 // The true error.
	Omega                 float64 // [Features.CorrelationPeak].
}

// Compare measures features. It tries the thresholds of a grid, [Features.Thresholds] with count thresholds.
func (f *Features) Compare(thresholds int) (Comparison, error) {
	curves, err := f.TailCurves(f.Thresholds(thresholds))
	if err != nil {
		return Comparison{}, err
	}
	a := Comparison{Curves: curves, Moments: f.MomentBound(), Error: f.Error(), Omega: f.CorrelationPeak()}
	a.PrintedAt, _ = curves.Best(func(t Tails) Bound { return f.Printed(t).Bound })
	a.RepairedAt, _ = curves.Best(func(t Tails) Bound { return f.Repaired(t, a.Omega).Bound })
	a.Printed, a.Repaired = f.Printed(a.PrintedAt), f.Repaired(a.RepairedAt, a.Omega)
	return a, nil
}
