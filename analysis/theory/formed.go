package theory

import "gonum.org/v1/gonum/mat"

// FeaturesOf brings features into a form: flat holds vectors of length dim, those of all views of an image together, and labels has the class of each
// image.
func FeaturesOf(flat []float32, dim int, labels []int32, classes, views int, form string) (*Features, error) {
	count := len(flat) / dim
	rows := mat.NewDense(count, dim, nil)
	ofRow, images := make([]int, count), make([]int, count)
	for i := range count {
		for c := range dim {
			rows.Set(i, c, float64(flat[i*dim+c]))
		}
		ofRow[i], images[i] = int(labels[i/views]), i/views
	}
	return NewFeatures(Formed(rows, form, classes), ofRow, images, 1)
}
