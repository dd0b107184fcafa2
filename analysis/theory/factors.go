package theory

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

// Factors are the three numbers that decide over a view's class after lemma condition_cls_correct, and the error that they make.
type Factors struct {
	// Within is the mean similarity of two views of a class, a view with itself included, and Between that of two classes' means.
	Within, Between float64
	// Distance is the root mean square distance of a view from the mean of its image's views.
	Distance float64
	// Error is the share of views nearest to another class's mean.
	Error float64
}

// Factors computes the factors of the features.
func (f *Features) Factors() Factors {
	m, means, between := f.MomentBound(), f.ClassMeans(), 0.0
	for k := range f.Classes {
		for l := range k {
			between += mat.Dot(means.RowView(k), means.RowView(l)) * 2 / float64(f.Classes*(f.Classes-1))
		}
	}
	return Factors{Within: m.Within, Between: between, Distance: math.Sqrt(m.Spread), Error: f.Error()}
}
