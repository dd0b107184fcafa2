package theory

import "gonum.org/v1/gonum/mat"

// The forms in which an encoder's features are handed to the theorem, which is about any map to a sphere.
const (
	// BackboneForm: as they are, scaled to length 1. Behind a ReLU all similarities are then positive.
	BackboneForm = "backbone"
	// CentredForm: their mean over all views taken off before they are scaled.
	CentredForm = "centred"
	// PrincipalForm: centred, and cut to their K first principal axes: the printed theorem asks for K/2 ≤ d ≤ K.
	PrincipalForm = "principal"
)

// Forms are all of them.
var Forms = []string{BackboneForm, CentredForm, PrincipalForm}

// Formed brings features, [N, D], into a form with at most the given number of dimensions.
func Formed(features *mat.Dense, form string, dimensions int) *mat.Dense {
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
	eigen.VectorsTo(&axes) // Of ascending eigenvalues.
	var cut mat.Dense
	cut.Mul(centred, axes.Slice(0, dim, dim-dimensions, dim))
	return &cut
}
