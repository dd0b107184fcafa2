package stats

import (
	"fmt"
	"slices"
	"testing"
)

func ExampleKMeans() {
	points := [][]float64{{0, 0}, {9, 9}, {0, 0.1}, {9, 9.1}, {0, 9}, {0.1, 0}}
	fmt.Println(KMeans(points, 3))
	// Output: [0 1 0 1 2 0]
}

// TestKMeansMovesItsCentres has a point that is first nearer to the wrong centre. The centres 0 and 20 take [0 0 0 9] and [11 11 20], whose means are 2.25 and 14. Then 9
// is nearer to 14, and the means are 0 and 12.75.
func TestKMeansMovesItsCentres(t *testing.T) {
	for _, c := range []struct {
		points []float64
		want   []int
	}{
		{[]float64{0, 0, 0, 9, 11, 11, 20}, []int{0, 0, 0, 1, 1, 1, 1}},
		// The first point, 20, names the first cluster.
		{[]float64{20, 11, 9, 0, 11, 0, 0}, []int{0, 0, 0, 1, 0, 1, 1}},
		// The middle of the centres is 8, and then 8.2, that of the means 3.97 and 12.5.
		{[]float64{0, 4, 7.9, 9, 16}, []int{0, 0, 0, 1, 1}},
	} {
		points := make([][]float64, len(c.points))
		for i, x := range c.points {
			points[i] = []float64{x, 1}
		}
		if got := KMeans(points, 2); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.points, got, c.want)
		}
	}
}

// TestKMeansTakesFewPoints: fewer points than clusters, none, and equal ones.
func TestKMeansTakesFewPoints(t *testing.T) {
	if labels := KMeans([][]float64{{1}}, 4); len(labels) != 1 || labels[0] != 0 {
		t.Error(labels)
	}
	if labels := KMeans(nil, 3); labels != nil {
		t.Error(labels)
	}
	if labels := KMeans([][]float64{{1}, {1}, {1}}, 2); labels[0] != labels[1] || labels[1] != labels[2] {
		t.Error(labels)
	}
}
