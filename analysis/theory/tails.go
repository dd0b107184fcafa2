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

	"github.com/janpfeifer/must"
	"github.com/samber/lo"
	"gonum.org/v1/gonum/mat"
)

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
		members := f.class(k)
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
						counts := class
						if l >= first && l < first+f.Views {
							counts = view
						}
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
func (f *Features) Tails(viewThreshold, classThreshold float64) (Tails, error) {
	if math.IsNaN(viewThreshold) || math.IsNaN(classThreshold) {
		return Tails{}, fmt.Errorf("tails: thresholds %g and %g", viewThreshold, classThreshold)
	}
	c, err := f.TailCurves([]float64{min(viewThreshold, classThreshold), max(viewThreshold, classThreshold)})
	if err != nil {
		return Tails{}, err
	}
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
func ReadTails(path, views, form string) (TailCurves, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return TailCurves{}, err
	}
	curves, err := parseTails(content, views, form)
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return curves, err
}

func parseTails(content []byte, views, form string) (c TailCurves, err error) {
	reader := csv.NewReader(bytes.NewReader(content))
	reader.FieldsPerRecord = len(tailsHeader)
	records, err := reader.ReadAll()
	if err != nil {
		return c, err
	}
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
