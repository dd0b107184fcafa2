package theory

import "gonum.org/v1/gonum/mat"

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
