package theory

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// sample draws features of one of several kinds, degenerate ones included: few images or views, one dimension, ties, collapse.
func sample(rng *rand.Rand) *Features {
	classes, images, views, dim := 2+rng.IntN(4), 1+rng.IntN(5), 1+rng.IntN(4), 1+rng.IntN(6)
	radius := []float64{1, 1, 0.5, 3}[rng.IntN(4)]
	noise := math.Pow(10, -3*rng.Float64()) // The noise of views about their image.
	spread := math.Pow(10, 0.5-3*rng.Float64())
	kind := rng.IntN(7)
	if kind == 6 {
		kind, dim, spread = 0, max(classes, dim), 0.1*spread
	}
	rows := mat.NewDense(classes*images*views, dim, nil)
	for k := range classes {
		for a := range images {
			centre := make([]float64, dim)
			for j := range centre {
				centre[j] = spread * rng.NormFloat64()
			}
			switch kind {
			case 0: // Classes on axes: the theorem's best case if d ≥ K.
				centre[k%dim] += 1
			case 1: // Labels are independent of features.
				centre[0] += 1
			case 2: // All in one point.
				clear(centre)
				centre[0] = 1
			case 3: // Ties: few different vectors.
				for j := range centre {
					centre[j] = float64(rng.IntN(2))
				}
				centre[0]++
			case 4: // Opposite classes.
				centre[0] += float64(1 - 2*(k%2))
			}
			for v := range views {
				row := rows.RawRowView((k*images+a)*views + v)
				for j := range row {
					row[j] = centre[j]
					if kind != 2 && kind != 3 {
						row[j] += noise * rng.NormFloat64()
					}
				}
			}
		}
	}
	f, err := GridFeatures(rows, classes, images, views, radius)
	if err != nil {
		panic(err)
	}
	return f
}

func TestFeaturesAreSortedAndScaled(t *testing.T) {
	rows := mat.NewDense(8, 2, []float64{3, 4, 6, 8, 0, 2, 0, -1, 1, 0, -2, 0, 0, 1, 5, 5})
	f, err := NewFeatures(rows, []int32{1, 0, 1, 0}, 2)
	if err != nil {
		t.Fatal(err)
	}
	if f.Classes != 2 || f.Images != 2 || f.Views != 2 || f.Dim != 2 || f.Len() != 8 || f.Groups() != 4 {
		t.Fatalf("%+v", f)
	}
	half := math.Sqrt2
	want := mat.NewDense(8, 2, []float64{0, 2, 0, -2, 0, 2, half, half, 1.2, 1.6, 1.2, 1.6, 2, 0, -2, 0})
	if !mat.EqualApprox(f.Z, want, 1e-15) {
		t.Errorf("%v", mat.Formatted(f.Z))
	}
	if f.ClassOf(3) != 0 || f.ClassOf(4) != 1 {
		t.Error("classes are not one after the other")
	}
}

func TestBadFeaturesAreRefused(t *testing.T) {
	rows := func(n int) *mat.Dense { return mat.NewDense(n, 1, slices.Repeat([]float64{1}, n)) }
	for _, c := range []struct {
		rows   *mat.Dense
		labels []int32
		radius float64
		want   string
	}{
		{rows(3), []int32{0, 1}, 1, "3 vectors are not the views of 2 images"},
		{rows(2), nil, 1, "2 vectors are not the views of 0 images"},
		{rows(2), []int32{-1, 0}, 1, "with labels from 0 on"},
		{rows(2), []int32{0, 1}, 0, "radius 0"},
		{rows(2), []int32{0, 0}, 1, "features of 1 classes"},
		{rows(2), []int32{0, 2}, 1, "class 1 is missing"},
		{rows(3), []int32{0, 1, 1}, 1, "class 0 has 1 images and class 1 has 2"},
		{mat.NewDense(2, 1, []float64{1, 0}), []int32{0, 1}, 1, "vector 1 has length 0"},
		{mat.NewDense(2, 1, []float64{1, math.NaN()}), []int32{0, 1}, 1, "vector 1 has length NaN"},
	} {
		if _, err := NewFeatures(c.rows, c.labels, c.radius); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
	if _, err := GridFeatures(rows(6), 2, 2, 2, 1); err == nil || err.Error() != "features: 6 vectors are not 2 classes of 2 images with 2 views" {
		t.Error(err)
	}
}

func TestEffectiveRank(t *testing.T) {
	for _, c := range []struct {
		f    *Features
		want float64
	}{
		{OrthogonalClasses(4, 3, 2, 0, 1), 4},
		{RandomLabels(4, 3, 2, 0, 1), 1},
	} {
		close(t, "effective rank", c.f.EffectiveRank(), c.want, 1e3)
	}
}

func ExampleNewFeatures() {
	// Two classes of two images with two views each.
	rows := mat.NewDense(8, 2, []float64{1, 0, 1, 0.1, 0, 1, 0.1, 1, 1, 0.2, 1, 0.3, 0.2, 1, 0.3, 1})
	f, _ := NewFeatures(rows, []int32{0, 1, 0, 1}, 1)
	tails, _ := f.Tails(0.99, 0.97)
	fmt.Printf("error %.2f, p_T %.2f, q_T %.2f, effective rank %.2f\n", f.Error(), tails.ViewTail, tails.ClassTail, f.EffectiveRank())
	// Output: error 0.00, p_T 0.00, q_T 0.25, effective rank 1.92
}
