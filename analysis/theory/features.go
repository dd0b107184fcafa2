package theory

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// Features are representations as in the paper's section "Problem Formulation": K classes of n images with m views each, every view a vector of
// length r. Two views belong to one image (ŵ_ij = 1) or not, and to one class (w_ij = 1) or not.
type Features struct {
	// Z has one row of Dim numbers per view, [N, Dim] with N = Classes·Images·Views: class by class, image by image, view by view.
	Z *mat.Dense
	// Classes is K ≥ 2, Images is n ≥ 1 per class, Views is m ≥ 1 per image, Dim is d.
	Classes, Images, Views, Dim int
	// Radius is r > 0, the length of every row.
	Radius float64
}

// NewFeatures groups vectors into Features and scales each to length radius. Row i of rows, [N, d], is a view of image images[i] with class labels[i]
// in 0…K−1. Views keep their order within an image, and images within a class. It is an error if the theorem does not apply: with fewer than two
// classes, with different numbers of images per class or views per image, with an image of two classes, or with a vector that is zero or not finite.
func NewFeatures(rows mat.Matrix, labels, images []int, radius float64) (*Features, error) {
	count, dim := rows.Dims()
	if len(labels) != count || len(images) != count {
		return nil, fmt.Errorf("features: %d vectors with %d labels and %d image numbers", count, len(labels), len(images))
	}
	if !(radius > 0) || math.IsInf(radius, 0) {
		return nil, fmt.Errorf("features: radius %g is not positive", radius)
	}
	order := make([]int, count)
	first := map[int]int{} // The first row of each image.
	for i := range order {
		order[i] = i
		if _, seen := first[images[i]]; !seen {
			first[images[i]] = i
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(labels[a], labels[b]), cmp.Compare(first[images[a]], first[images[b]]))
	})
	f := &Features{Z: mat.NewDense(max(count, 1), dim, nil), Dim: dim, Radius: radius}
	perImage, perClass := map[int]int{}, map[int]map[int]bool{}
	for to, from := range order {
		label, image := labels[from], images[from]
		if labels[first[image]] != label {
			return nil, fmt.Errorf("features: image %d has views of classes %d and %d", image, labels[first[image]], label)
		}
		perImage[image]++
		if perClass[label] == nil {
			perClass[label] = map[int]bool{}
		}
		perClass[label][image] = true
		row := f.Z.RawRowView(to)
		mat.Row(row, from, rows)
		norm := 0.0
		for _, x := range row {
			norm = math.Hypot(norm, x)
		}
		if !(norm > 0) || math.IsInf(norm, 0) {
			return nil, fmt.Errorf("features: vector %d has length %g, which has no direction", from, norm)
		}
		for j := range row {
			row[j] *= radius / norm
		}
	}
	f.Classes = len(perClass)
	if f.Classes < 2 {
		return nil, fmt.Errorf("features of %d classes: want at least two", f.Classes)
	}
	for class := range f.Classes {
		if perClass[class] == nil {
			return nil, fmt.Errorf("features: class %[2]d is missing, want classes 0 to %[1]d", f.Classes-1, class)
		}
	}
	f.Images, f.Views = len(perClass[0]), perImage[images[order[0]]]
	for class := range f.Classes {
		if n := len(perClass[class]); n != f.Images {
			return nil, fmt.Errorf("features: class 0 has %d images and class %d has %d: the theorem needs equally many", f.Images, class, n)
		}
	}
	for _, i := range order {
		if m := perImage[images[i]]; m != f.Views {
			return nil, fmt.Errorf("features: image %d has %d views and image %d has %d: the theorem needs equally many",
				images[order[0]], f.Views, images[i], m)
		}
	}
	return f, nil
}

// GridFeatures makes Features of rows that are already class by class, image by image, view by view, [classes·images·views, d], scaled to length
// radius.
func GridFeatures(rows mat.Matrix, classes, images, views int, radius float64) (*Features, error) {
	count, _ := rows.Dims()
	if classes < 1 || images < 1 || views < 1 || classes*images*views != count {
		return nil, fmt.Errorf("features: %d vectors are not %d classes of %d images with %d views", count, classes, images, views)
	}
	labels, numbers := make([]int, count), make([]int, count)
	for i := range count {
		labels[i], numbers[i] = i/(images*views), i/views
	}
	return NewFeatures(rows, labels, numbers, radius)
}

// Len is N, the number of views of all images.
func (f *Features) Len() int { return f.Classes * f.Images * f.Views }

// Groups is the number of images of all classes. Group g has the views from Views·g up to but not including Views·(g+1), which is T2 for each of
// them.
func (f *Features) Groups() int { return f.Classes * f.Images }

// ClassOf is the class of view i.
func (f *Features) ClassOf(i int) int { return i / (f.Images * f.Views) }

// row is z_i.
func (f *Features) row(i int) []float64 { return f.Z.RawRowView(i) }

// class is the matrix of a class's views, [n·m, d]; it shares memory.
func (f *Features) class(k int) *mat.Dense {
	size := f.Images * f.Views
	return f.Z.Slice(k*size, (k+1)*size, 0, f.Dim).(*mat.Dense)
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

// The forms in which features enter the theorem, which holds for any map to a sphere.
const (
	// BackboneForm keeps features as they are, scaled to length 1. After a ReLU all similarities are then positive.
	BackboneForm = "backbone"
	// CentredForm subtracts the mean over all views before scaling.
	CentredForm = "centred"
	// PrincipalForm also projects on the first K principal axes, because the printed theorem requires K/2 ≤ d ≤ K.
	PrincipalForm = "principal"
)

// Forms lists all forms.
var Forms = []string{BackboneForm, CentredForm, PrincipalForm}

// InForm brings features, [N, D], into a form with at most the given number of dimensions.
func InForm(features *mat.Dense, form string, dimensions int) *mat.Dense {
	if form == BackboneForm {
		return features
	}
	count, dim := features.Dims()
	centred := mat.DenseCopyOf(features)
	for c := range dim {
		mean := mat.Sum(features.ColView(c)) / float64(count)
		for i := range count {
			centred.Set(i, c, features.At(i, c)-mean)
		}
	}
	if form == CentredForm || dim <= dimensions {
		return centred
	}
	var covariance mat.SymDense
	covariance.SymOuterK(1/float64(count), centred.T())
	var eigen mat.EigenSym
	eigen.Factorize(&covariance, true)
	var axes mat.Dense
	eigen.VectorsTo(&axes) // In order of ascending eigenvalues.
	var cut mat.Dense
	cut.Mul(centred, axes.Slice(0, dim, dim-dimensions, dim))
	return &cut
}

// NewFeaturesInForm brings features into a form. flat holds vectors of length dim, with all views of an image together; labels holds the class of each
// image.
func NewFeaturesInForm(flat []float32, dim int, labels []int32, classes, views int, form string) (*Features, error) {
	count := len(flat) / dim
	rows := mat.NewDense(count, dim, nil)
	ofRow, images := make([]int, count), make([]int, count)
	for i := range count {
		for c := range dim {
			rows.Set(i, c, float64(flat[i*dim+c]))
		}
		ofRow[i], images[i] = int(labels[i/views]), i/views
	}
	return NewFeatures(InForm(rows, form, classes), ofRow, images, 1)
}

// OrthogonalClasses are the theorem's best case: K classes of n images with m views, on the K axes of K dimensions, r = 1, with Gaussian noise of
// this standard deviation in each coordinate of each view. It panics without a class, image or view.
func OrthogonalClasses(classes, images, views int, noise float64, seed uint64) *Features {
	random := rand.New(rand.NewPCG(seed, 0))
	rows := mat.NewDense(classes*images*views, classes, nil)
	for i := range classes * images * views {
		row := rows.RawRowView(i)
		for j := range row {
			row[j] = noise * random.NormFloat64()
		}
		row[i/(images*views)]++
	}
	return mustGrid(rows, classes, images, views)
}

// RandomLabels are the counterexample to the printed theorem (erratum E14): all images lie in one small cap of the sphere in K dimensions, r = 1,
// with random labels. The centres of images have Gaussian noise of standard deviation size about the cap's centre, (1, …, 1), and their views a
// hundredth of it. An encoder of small Lipschitz constant produces such features from inputs in a small ball and meets all constraints of OP1; p_T
// and q_T are then 0 for thresholds near r², and labels cannot be predicted. It panics without a class, image or view.
func RandomLabels(classes, images, views int, size float64, seed uint64) *Features {
	random := rand.New(rand.NewPCG(seed, 0))
	rows := mat.NewDense(classes*images*views, classes, nil)
	centre := make([]float64, classes)
	for i := range classes * images * views {
		if i%views == 0 {
			for j := range centre {
				centre[j] = 1 + size*random.NormFloat64()
			}
		}
		for j, x := range centre {
			rows.Set(i, j, x+size/100*random.NormFloat64())
		}
	}
	return mustGrid(rows, classes, images, views)
}

func mustGrid(rows mat.Matrix, classes, images, views int) *Features {
	f, err := GridFeatures(rows, classes, images, views, 1)
	if err != nil {
		panic(err)
	}
	return f
}
