package theory

import "math"

// Classify is the paper's classifier G_f (eq. defi_knn_cls) on the features themselves: for each of the N views, the class with the nearest mean.
// Ties go to the lowest class.
func (f *Features) Classify() []int {
	means := f.ClassMeans()
	classes := make([]int, f.Len())
	for i := range classes {
		nearest := math.Inf(1)
		for k := range f.Classes {
			distance := 0.0
			for j, x := range f.row(i) {
				gap := x - means.At(k, j)
				distance += gap * gap
			}
			if distance < nearest {
				nearest, classes[i] = distance, k
			}
		}
	}
	return classes
}

// Error is 𝓔(f), the share of views that [Features.Classify] puts into the wrong class, in [0, 1].
func (f *Features) Error() float64 {
	wrong := 0
	for i, k := range f.Classify() {
		if k != f.ClassOf(i) {
			wrong++
		}
	}
	return float64(wrong) / float64(f.Len())
}
