// Package theory makes the paper's theory of implicit semantic concentration computable.
//
// It starts from [Features]: n images of each of K classes, m views of each, as vectors of length r. From these it computes the similarity curves
// behind p_T and q_T ([Features.TailCurves]), the terms Δ of lemma sum_delta ([Features.Deltas]), the nearest-mean classifier whose error the theorem
// bounds ([Features.Error]), the printed theorem ([Setting.Printed]), the repaired one ([Repaired]) and its form in measured moments
// ([Features.MomentBound]); [Features.Compare] sets them side by side. [OP1] is the paper's toy problem and [OP1.Solve] its solver; [Features.Lemmas]
// tests each lemma on a set of features. The proofs are in docs/theory.md.
//
// Everything is computed in float64 on the host, without sampling and without a matrix of all pairs. The next theorem or lemma gets a file here and a
// loop over its definition in reference_test.go.
package theory

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/dsnet/try"
	"github.com/janpfeifer/must"
	"github.com/samber/lo"
	"github.com/semcon/semcon/analysis/stats"
	"gonum.org/v1/gonum/mat"
)

// Features are representations as in the paper's section "Problem Formulation": K classes of n images with m views each, every view a vector of
// length r. Two views belong to one image (ŵ_ij = 1) or not, and to one class (w_ij = 1) or not.
type Features struct {
	Z *mat.Dense // One row of Dim numbers per view, [N, Dim] with N = Classes·Images·Views: class by class, image by image, view by view.
	Setting
	Views int // m ≥ 1 per image.
}

// NewFeatures groups vectors into Features and scales each to length radius. rows, [N, d], holds the views of each image together, equally many of each,
// and labels the class of each image in 0…K−1. Images keep their order within a class. It is an error if the theorem does not apply: with fewer than two
// classes, with different numbers of images per class, or with a vector that is zero or not finite.
func NewFeatures(rows mat.Matrix, labels []int32, radius float64) (*Features, error) {
	count, dim := rows.Dims()
	if len(labels) == 0 || count%len(labels) != 0 || slices.Min(labels) < 0 {
		return nil, fmt.Errorf("features: %d vectors are not the views of %d images with labels from 0 on", count, len(labels))
	}
	if !(radius > 0) || math.IsInf(radius, 0) {
		return nil, fmt.Errorf("features: radius %g is not positive", radius)
	}
	f := &Features{mat.NewDense(count, dim, nil), Setting{Classes: int(slices.Max(labels)) + 1, Dim: dim, Radius: radius}, count / len(labels)}
	order, perClass := lo.Range(len(labels)), make([]int, f.Classes)
	for _, label := range labels {
		perClass[label]++
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(labels[a], labels[b]) })
	for to := range count {
		from, row := order[to/f.Views]*f.Views+to%f.Views, f.row(to)
		mat.Row(row, from, rows)
		norm := lo.Reduce(row, func(norm, x float64, _ int) float64 { return math.Hypot(norm, x) }, 0)
		if !(norm > 0) || math.IsInf(norm, 0) {
			return nil, fmt.Errorf("features: vector %d has length %g, which has no direction", from, norm)
		}
		for j := range row {
			row[j] *= radius / norm
		}
	}
	if f.Classes < 2 {
		return nil, fmt.Errorf("features of %d classes: want at least two", f.Classes)
	}
	f.Images = perClass[0]
	for class, n := range perClass {
		switch {
		case n == 0:
			return nil, fmt.Errorf("features: class %d is missing, want classes 0 to %d", class, f.Classes-1)
		case n != f.Images:
			return nil, fmt.Errorf("features: class 0 has %d images and class %d has %d: the theorem needs equally many", f.Images, class, n)
		}
	}
	return f, nil
}

// GridFeatures makes Features of rows that are already class by class, image by image, view by view, [classes·images·views, d], scaled to length radius.
func GridFeatures(rows mat.Matrix, classes, images, views int, radius float64) (*Features, error) {
	count, _ := rows.Dims()
	if classes < 1 || images < 1 || views < 1 || classes*images*views != count {
		return nil, fmt.Errorf("features: %d vectors are not %d classes of %d images with %d views", count, classes, images, views)
	}
	return NewFeatures(rows, lo.Times(classes*images, func(i int) int32 { return int32(i / images) }), radius)
}

// Len is N, the number of views of all images.
func (f *Features) Len() int { return f.Classes * f.Images * f.Views }

// Groups is the number of images of all classes. Group g has the views from Views·g up to but not including Views·(g+1), which is T2 for each of them.
func (f *Features) Groups() int { return f.Classes * f.Images }

// ClassOf is the class of view i.
func (f *Features) ClassOf(i int) int { return i / (f.Images * f.Views) }

// row is z_i.
func (f *Features) row(i int) []float64 { return f.Z.RawRowView(i) }

// class is the features of one class; it shares memory.
func (f *Features) class(k int) *Features {
	size := f.Images * f.Views
	z := f.Z.Slice(k*size, (k+1)*size, 0, f.Dim).(*mat.Dense)
	return &Features{z, Setting{1, f.Images, f.Dim, f.Radius}, f.Views}
}

// ClassMeans are μ_k, the mean vector of each class, [K, d].
func (f *Features) ClassMeans() *mat.Dense { return f.means(f.Classes, f.Images*f.Views) }

// ImageMeans are the mean vectors of each image's views, [K·n, d].
func (f *Features) ImageMeans() *mat.Dense { return f.means(f.Groups(), f.Views) }

// means averages consecutive groups of size rows; there are count groups.
func (f *Features) means(count, size int) *mat.Dense {
	means := mat.NewDense(count, f.Dim, nil)
	for i := range count * size {
		mean := means.RawRowView(i / size)
		for j, x := range f.row(i) {
			mean[j] += x / float64(size)
		}
	}
	return means
}

// dot is the inner product of two vectors of the same length.
func dot(a, b []float64) float64 {
	sum := 0.0
	for i, x := range a {
		sum += x * b[i]
	}
	return sum
}

// distance is the Euclidean distance of two vectors of the same length.
func distance(a, b []float64) float64 {
	return lo.Reduce(a, func(length, x float64, i int) float64 { return math.Hypot(length, x-b[i]) }, 0)
}

// squaredDistance is the square of the distance of two vectors, summed in order.
func squaredDistance(a, b []float64) float64 {
	sum := 0.0
	for i, x := range a {
		sum += (x - b[i]) * (x - b[i])
	}
	return sum
}

// The forms in which features enter the theorem, which holds for any map to a sphere.
const (
	BackboneForm  = "backbone"  // Features as they are, scaled to length 1. After a ReLU all similarities are then positive.
	CentredForm   = "centred"   // Without the mean over all views, then scaled.
	PrincipalForm = "principal" // Also projected on the first K principal axes, because the printed theorem requires K/2 ≤ d ≤ K.
)

// Forms lists all forms.
var Forms = []string{BackboneForm, CentredForm, PrincipalForm}

// InForm brings features, [N, D], into a form with at most the given number of dimensions. The principal form of features that are not finite is an error.
func InForm(features *mat.Dense, form string, dimensions int) (_ *mat.Dense, err error) {
	defer try.Handle(&err)
	count, dim := features.Dims()
	switch {
	case form == BackboneForm:
		return features, nil
	case form == PrincipalForm && dimensions < dim:
		components := try.E1(stats.PrincipalComponents(lo.Times(count, features.RawRowView), dimensions))
		return mat.NewDense(count, dimensions, slices.Concat(components...)), nil
	}
	centred := mat.DenseCopyOf(features)
	for c := range dim {
		mean := mat.Sum(features.ColView(c)) / float64(count)
		for i := range count {
			centred.Set(i, c, features.At(i, c)-mean)
		}
	}
	return centred, nil
}

// NewFeaturesInForm brings features into a form. flat holds vectors of length dim, with all views of an image together; labels holds the class of each image.
func NewFeaturesInForm(flat []float32, dim int, labels []int32, classes int, form string) (_ *Features, err error) {
	defer try.Handle(&err)
	rows := mat.NewDense(len(flat)/dim, dim, lo.Map(flat, func(x float32, _ int) float64 { return float64(x) }))
	return NewFeatures(try.E1(InForm(rows, form, classes)), labels, 1)
}

// OrthogonalClasses are the theorem's best case: K classes of n images with m views, on the K axes of K dimensions, r = 1, with Gaussian noise of
// this standard deviation in each coordinate of each view. It panics without a class, image or view.
func OrthogonalClasses(classes, images, views int, noise float64, seed uint64) *Features {
	return drawn(classes, images, views, seed, func(i int, row []float64, random *rand.Rand) {
		for j := range row {
			row[j] = noise * random.NormFloat64()
		}
		row[i/(images*views)]++
	})
}

// RandomLabels are the counterexample to the printed theorem (erratum E14): all images lie in one small cap of the sphere in K dimensions, r = 1,
// with random labels. The centres of images have Gaussian noise of standard deviation size about the cap's centre, (1, …, 1), and their views a
// hundredth of it. An encoder of small Lipschitz constant produces such features from inputs in a small ball and meets all constraints of OP1; p_T
// and q_T are then 0 for thresholds near r², and labels cannot be predicted. It panics without a class, image or view.
func RandomLabels(classes, images, views int, size float64, seed uint64) *Features {
	centre := make([]float64, classes)
	return drawn(classes, images, views, seed, func(i int, row []float64, random *rand.Rand) {
		if i%views == 0 {
			for j := range centre {
				centre[j] = 1 + size*random.NormFloat64()
			}
		}
		for j, x := range centre {
			row[j] = x + size/100*random.NormFloat64()
		}
	})
}

// drawn draws features view by view, of as many dimensions as classes.
func drawn(classes, images, views int, seed uint64, draw func(i int, row []float64, random *rand.Rand)) *Features {
	rows, random := mat.NewDense(classes*images*views, classes, nil), rand.New(rand.NewPCG(seed, 0))
	for i := range classes * images * views {
		draw(i, rows.RawRowView(i), random)
	}
	return must.M1(GridFeatures(rows, classes, images, views, 1))
}

// Toy generates inputs as in the paper's intuition (section "Intuitive Comprehension"): an image is a ring of parts, some of which its class shares,
// and a view shows an arc of the ring.
type Toy struct {
	Classes, Images, Views int // K classes, n images of each, m views of each image.
	Parts, Size            int // The parts of an image, and the length p of the vector that describes a part's appearance.
	// Shared is the share of parts that all images of a class have in common, in [0, 1]. They all look the same, as a texture does, and are neighbours on the ring,
	// starting at a different place in each image. The other parts are the image's own.
	Shared float64
	// Crop is the share of parts that a view shows, in (0, 1]. Each view draws its own arc: at 1 there is no crop, and the smaller it is, the less
	// two views of an image overlap.
	Crop     float64
	SameCrop bool    // All views of an image have the same arc, at a random position.
	Noise    float64 // The standard deviation of the noise in each number of each view's input, which makes all views different.
	Seed     uint64  // Determines everything.
}

// DefaultToy is a small toy in which classes can come together: half of the parts are shared, and a view shows a quarter.
func DefaultToy() Toy {
	return Toy{Classes: 3, Images: 6, Views: 4, Parts: 8, Size: 16, Shared: 0.5, Crop: 0.25, Noise: 0.02, Seed: 1}
}

// Problem is OP1 of the toy's inputs with the constant φ_f: on the unit sphere of as many dimensions as classes, with the largest α of the paper's lemmas,
// 1/4, and two starts.
func (t Toy) Problem(lipschitz float64) (OP1, error) {
	inputs, err := t.Inputs()
	return OP1{
		Inputs: inputs, Classes: t.Classes, Images: t.Images, Views: t.Views,
		Dim: t.Classes, Radius: 1, Alpha: 0.25, Lipschitz: lipschitz, Starts: 2,
	}, err
}

// Inputs are the views, [K·n·m, p], class by class, image by image, view by view. A view is the mean of the parts shown, since it shows what a part
// looks like and not where it is, plus noise. Parts are random vectors of length 1. The error names the number that is out of range.
func (t Toy) Inputs() (*mat.Dense, error) {
	switch {
	case t.Classes < 2 || t.Images < 1 || t.Views < 1 || t.Parts < 1 || t.Size < 1:
		return nil, fmt.Errorf("toy: %d classes (at least 2), %d images, %d views, %d parts and size %d must be positive",
			t.Classes, t.Images, t.Views, t.Parts, t.Size)
	case !(t.Shared >= 0 && t.Shared <= 1) || !(t.Crop > 0 && t.Crop <= 1) || !(t.Noise >= 0):
		return nil, fmt.Errorf("toy: shared %g must be in [0, 1], crop %g in (0, 1], and noise %g not negative", t.Shared, t.Crop, t.Noise)
	}
	// Classes, images and views draw from separate sources, so that changing one number leaves the rest as it was.
	source := func(purpose uint64) *rand.Rand { return rand.New(rand.NewPCG(t.Seed, purpose)) }
	classes, images, places, crops, noise := source(1), source(2), source(3), source(4), source(5)
	part := func(random *rand.Rand) []float64 {
		v := lo.Times(t.Size, func(int) float64 { return random.NormFloat64() })
		length := math.Sqrt(dot(v, v))
		return lo.Map(v, func(x float64, _ int) float64 { return x / length })
	}
	shared := int(math.Round(t.Shared * float64(t.Parts)))
	shown := max(1, int(math.Round(t.Crop*float64(t.Parts))))
	inputs := mat.NewDense(t.Classes*t.Images*t.Views, t.Size, nil)
	for k := range t.Classes {
		common := part(classes)
		for a := range t.Images {
			ring := make([][]float64, t.Parts)
			place := places.IntN(t.Parts)
			for i := range ring {
				ring[(place+i)%t.Parts] = part(images)
				if i < shared {
					ring[(place+i)%t.Parts] = common
				}
			}
			stretch := crops.IntN(t.Parts)
			for v := range t.Views {
				if v > 0 && !t.SameCrop {
					stretch = crops.IntN(t.Parts)
				}
				row := inputs.RawRowView((k*t.Images+a)*t.Views + v)
				for c := range row {
					for i := range shown {
						row[c] += ring[(stretch+i)%t.Parts][c] / float64(shown)
					}
					row[c] += t.Noise * noise.NormFloat64()
				}
			}
		}
	}
	return inputs, nil
}
