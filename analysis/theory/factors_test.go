package theory

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// TestFactorsByHand: two classes of one image with two views each. The first has its views at a right angle, the second twice the same view.
func TestFactorsByHand(t *testing.T) {
	f, err := GridFeatures(mat.NewDense(4, 2, []float64{1, 0, 0, 1, 1, 0, 1, 0}), 2, 1, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	got := f.Factors()
	// The means are (½, ½) and (1, 0). The first view of class 1 is the mean of class 2.
	want := Factors{Within: (0.5 + 1) / 2, Between: 0.5, Distance: 0.5, Error: 0.25}
	for name, pair := range map[string][2]float64{
		"within": {got.Within, want.Within}, "between": {got.Between, want.Between}, "distance": {got.Distance, want.Distance}, "error": {got.Error, want.Error},
	} {
		if !(math.Abs(pair[0]-pair[1]) <= 1e-12) {
			t.Errorf("%s is %g, want %g", name, pair[0], pair[1])
		}
	}
}

// TestMeanDeltas: the mean is over all views, and its sum is the identity of erratum E13.
func TestMeanDeltas(t *testing.T) {
	f := RandomLabels(3, 4, 2, 0.5, 1)
	const c = 2
	n, mean, sum := float64(f.Len()), f.MeanDeltas(c), 0.0
	for _, d := range f.Deltas(c) {
		sum += d.Sum() / n
	}
	if !(math.Abs(mean.Sum()*n-sum) <= 1e-9) || !(math.Abs(mean.Sum()-(f.DeltaTarget()/n-mean.Isotropy-mean.Alignment)) <= 1e-9) {
		t.Errorf("the mean is %g, its identity %g, want %g", mean.Sum(), f.DeltaTarget()/n-mean.Isotropy-mean.Alignment, sum/n)
	}
}

func TestProblemOfAToy(t *testing.T) {
	toy := DefaultToy()
	p, err := toy.Problem(1.5)
	if err != nil {
		t.Fatal(err)
	}
	rows, size := p.Inputs.Dims()
	if rows != 3*6*4 || size != 16 || p.Dim != 3 || p.Lipschitz != 1.5 || p.Alpha != 0.25 {
		t.Errorf("%d inputs of size %d, %+v", rows, size, p)
	}
	toy.Crop = 2
	if _, err := toy.Problem(1.5); err == nil {
		t.Error("a view shows twice the ring")
	}
}
