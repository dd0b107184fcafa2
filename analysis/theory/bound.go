package theory

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"

	"github.com/dsnet/try"
	"github.com/janpfeifer/must"
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

// LeastClassThreshold is the smallest d_T that the printed theorem admits, (3 + 2√(13K/d + 390/n − 1)) r²/13, from the proof; the statement prints (3
// + 2√(K/d + 30/n − 1/13)) r²/√13, which no d_T ≤ r² meets (erratum E6). Above r² the theorem is inapplicable, as at d = K/2 for every n.
func (s Setting) LeastClassThreshold() float64 {
	ratio := float64(s.Classes) / float64(s.Dim)
	return (3 + 2*math.Sqrt(13*ratio+390/float64(s.Images)-1)) * s.Radius * s.Radius / 13
}

// Printed evaluates the paper's formal theorem (thm main_formal) at tails, with the corrected condition of erratum E6. Its domain is K/2 ≤ d ≤ K and r² ≥ δ_T ≥ d_T ≥
// [Setting.LeastClassThreshold]. Its proof has gaps (errata E13 to E15): the bound can be far below the true error. [Repaired] is one that holds. The range of α that
// the proof needs is not a condition of the statement (erratum E21), and not one here.
func (s Setting) Printed(t Tails) (b Bound) {
	r2, n := s.Radius*s.Radius, float64(s.Images)
	delta, d := t.ViewThreshold, t.ClassThreshold
	spread := s.Radius * math.Sqrt(5*(delta+r2)) // r √(5 (δ_T + r²))
	c1 := (2*delta+(n-1)*(3*d-r2))/(2*n) - math.Sqrt(float64(s.Classes)*r2*r2/float64(s.Dim)-d*d+30*r2*r2/n)
	c2 := spread/n + math.Sqrt(1/n)*delta
	c3 := (n-1)/n*math.Sqrt(6)*r2 + math.Sqrt((n-1)/n)*d
	b.Domain = s.Dim <= s.Classes && 2*s.Dim >= s.Classes && delta <= r2 && delta >= d && d >= s.LeastClassThreshold()
	b.Margin = c1 - c2*math.Sqrt(t.ViewTail) - c3*math.Sqrt(t.ClassTail)
	b.Value = math.Inf(1)
	if b.Margin > 0 {
		b.Value = 32 * r2 * (r2 - delta + spread*math.Sqrt(t.ViewTail)) / (b.Margin * b.Margin)
	}
	return b
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
	// due to the inequalities of Cauchy–Schwarz and Chebyshev (docs/theory.md, theorem 3). Value also treats all other classes as one, by κ.
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
	for k := range f.Classes {
		class := f.class(k)
		copy(moments[k*f.Images:], class.groupMeans(class.Correlation()))
	}
	return moments
}

// Comparison sets every bound on the error of one set of features beside the error itself.
type Comparison struct {
	Curves                TailCurves
	PrintedAt, RepairedAt Tails // The tails at which each theorem says most.
	Printed               Bound
	Repaired              Repaired
	Moments               MomentBound
	Error                 float64 // The true error.
	Omega                 float64 // [Features.CorrelationPeak].
}

// Compare measures features. It tries the thresholds of a grid, [Features.Thresholds] with count thresholds.
func (f *Features) Compare(thresholds int) (_ Comparison, err error) {
	defer try.Handle(&err)
	curves := try.E1(f.TailCurves(f.Thresholds(thresholds)))
	a := Comparison{Curves: curves, Moments: f.MomentBound(), Error: f.Error(), Omega: f.CorrelationPeak()}
	a.PrintedAt, _ = curves.Best(f.Printed)
	a.RepairedAt, _ = curves.Best(func(t Tails) Bound { return f.Repaired(t, a.Omega).Bound })
	a.Printed, a.Repaired = f.Printed(a.PrintedAt), f.Repaired(a.RepairedAt, a.Omega)
	return a, nil
}

// Tails are the four numbers through which the theorem sees features: how often similarities are low.
type Tails struct {
	// ViewThreshold is δ_T, and ViewTail is p_T = sup_i P_{j,l ∈ T2(i)}[z_jᵀz_l ≤ δ_T], over pairs of views of one image, including a view with itself.
	ViewThreshold, ViewTail float64
	// ClassThreshold is d_T, and ClassTail is q_T = sup_i P_{j ∈ T2(i), l ∈ T1(j)}[z_jᵀz_l ≤ d_T], over pairs of views of two images of one class (lemma
	// prop_in_class; the assumption in-of-class-dist states it in the input space). It is small if a class's images share patterns (erratum E20).
	ClassThreshold, ClassTail float64
}

// TailCurves are p_T and q_T as functions of their thresholds: the supremum over images, which the theorem uses, and the mean.
type TailCurves struct {
	Thresholds                       []float64 // Ascending.
	View, Class, MeanView, MeanClass []float64 // p_T and q_T at each threshold, and their means over images instead of suprema.
}

// blockEntries limits the similarities in memory at a time: 32 MB.
const blockEntries = 4 << 20

// Thresholds are the candidates for the theorem's δ_T and d_T: 0, r², even steps between them, and steps that shrink towards r², where well-aligned
// features have all of their similarities, down to 10⁻⁸ r²; count ≥ 2 of each kind.
func (f *Features) Thresholds(count int) []float64 {
	r2 := f.Radius * f.Radius
	var thresholds []float64
	for i := range max(count, 2) {
		part := float64(i) / float64(max(count, 2)-1)
		thresholds = append(thresholds, r2*part, r2*(1-math.Pow(10, -8*part)))
	}
	slices.Sort(thresholds)
	return slices.Compact(thresholds)
}

// TailCurves computes p_T and q_T exactly at each of the given thresholds, which must ascend. It looks at all N²/K pairs within classes, in blocks.
// If classes have a single image, q_T is 0, as there are no pairs.
func (f *Features) TailCurves(thresholds []float64) (TailCurves, error) {
	if len(thresholds) == 0 || !slices.IsSorted(thresholds) {
		return TailCurves{}, errors.New("tails: thresholds must ascend, and there must be at least one")
	}
	bins, r2 := len(thresholds), f.Radius*f.Radius
	c := TailCurves{thresholds, make([]float64, bins), make([]float64, bins), make([]float64, bins), make([]float64, bins)}
	size := f.Images * f.Views
	blockImages := max(1, blockEntries/(size*f.Views))
	similarities := mat.NewDense(min(blockImages, f.Images)*f.Views, size, nil)
	view, class := make([]int, bins+1), make([]int, bins+1) // Counts pairs of one image by the first threshold that they do not exceed.
	for k := range f.Classes {
		members := f.class(k).Z
		for begin := 0; begin < f.Images; begin += blockImages {
			count := min(blockImages, f.Images-begin)
			s := similarities.Slice(0, count*f.Views, 0, size).(*mat.Dense)
			s.Mul(members.Slice(begin*f.Views, (begin+count)*f.Views, 0, f.Dim), members.T())
			for g := range count {
				clear(view)
				clear(class)
				first := (begin + g) * f.Views
				for v := range f.Views {
					for l, similarity := range s.RawRowView(g*f.Views + v) {
						counts := lo.Ternary(l >= first && l < first+f.Views, view, class)
						if l == first+v { // z_jᵀz_j, without rounding.
							similarity = r2
						}
						at, _ := slices.BinarySearch(thresholds, min(similarity, r2))
						counts[at]++
					}
				}
				accumulate(view, f.Views*f.Views, f.Groups(), c.View, c.MeanView)
				accumulate(class, f.Views*(size-f.Views), f.Groups(), c.Class, c.MeanClass)
			}
		}
	}
	return c, nil
}

// accumulate updates the supremum and the mean over images of the share of pairs up to each threshold with one image's counts.
func accumulate(counts []int, pairs, images int, supremum, mean []float64) {
	if pairs == 0 {
		return
	}
	sum := 0
	for t := range supremum {
		sum += counts[t]
		share := float64(sum) / float64(pairs)
		supremum[t] = max(supremum[t], share)
		mean[t] += share / float64(images)
	}
}

// Tails are p_T and q_T at one pair of thresholds.
func (f *Features) Tails(viewThreshold, classThreshold float64) (_ Tails, err error) {
	defer try.Handle(&err)
	if math.IsNaN(viewThreshold) || math.IsNaN(classThreshold) {
		return Tails{}, fmt.Errorf("tails: thresholds %g and %g", viewThreshold, classThreshold)
	}
	c := try.E1(f.TailCurves([]float64{min(viewThreshold, classThreshold), max(viewThreshold, classThreshold)}))
	view, class := slices.Index(c.Thresholds, viewThreshold), slices.Index(c.Thresholds, classThreshold)
	return Tails{viewThreshold, c.View[view], classThreshold, c.Class[class]}, nil
}

// Best tries every pair of thresholds, as a theorem that holds for each of them allows, and returns the pair with the best bound: one within the
// theorem's domain before one outside, then the lower value, then the larger margin.
func (c TailCurves) Best(bound func(Tails) Bound) (Tails, Bound) {
	var best Tails
	var least Bound
	for i, delta := range c.Thresholds {
		for j, d := range c.Thresholds {
			t := Tails{delta, c.View[i], d, c.Class[j]}
			if b := bound(t); i+j == 0 || b.better(least) {
				best, least = t, b
			}
		}
	}
	return best, least
}

var tailsHeader = []string{"views", "form", "threshold", "p_T", "q_T", "mean p", "mean q"}

// columns are the columns of a file after the first two.
func (c *TailCurves) columns() []*[]float64 {
	return []*[]float64{&c.Thresholds, &c.View, &c.Class, &c.MeanView, &c.MeanClass}
}

// TailsFile collects tail curves for a CSV file.
type TailsFile struct{ records [][]string }

// Add appends the curves of one kind of views in one form.
func (t *TailsFile) Add(views, form string, curves TailCurves) {
	for i := range curves.Thresholds {
		numbers := lo.Map(curves.columns(), func(column *[]float64, _ int) string { return strconv.FormatFloat((*column)[i], 'g', -1, 64) })
		t.records = append(t.records, append([]string{views, form}, numbers...))
	}
}

// Bytes returns the content of the file.
func (t *TailsFile) Bytes() []byte {
	var b bytes.Buffer
	must.M(csv.NewWriter(&b).WriteAll(append([][]string{tailsHeader}, t.records...))) // A buffer takes everything.
	return b.Bytes()
}

// ReadTails reads the curves of one kind of views in one form. Errors name the file and the line.
func ReadTails(path, views, form string) (curves TailCurves, err error) {
	defer try.Handle(&err)
	if curves, err = parseTails(try.E1(os.ReadFile(path)), views, form); err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return curves, err
}

func parseTails(content []byte, views, form string) (c TailCurves, err error) {
	defer try.Handle(&err)
	reader := csv.NewReader(bytes.NewReader(content))
	reader.FieldsPerRecord = len(tailsHeader)
	records := try.E1(reader.ReadAll())
	if len(records) == 0 || !slices.Equal(records[0], tailsHeader) {
		return c, fmt.Errorf("the first line is not %q", tailsHeader)
	}
	for i, record := range records[1:] {
		for j, column := range c.columns() {
			value, err := strconv.ParseFloat(record[2+j], 64)
			if err != nil {
				return TailCurves{}, fmt.Errorf("record %d: %w", i+2, err)
			}
			if record[0] == views && record[1] == form {
				*column = append(*column, value)
			}
		}
	}
	if len(c.Thresholds) == 0 {
		return c, fmt.Errorf("no curve of views %q in form %q", views, form)
	}
	return c, nil
}
