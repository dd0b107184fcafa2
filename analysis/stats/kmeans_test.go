package stats

import (
	"fmt"
	"testing"
)

func ExampleKMeans() {
	points := [][]float64{{0, 0}, {9, 9}, {0, 0.1}, {9, 9.1}, {0, 9}, {0.1, 0}}
	fmt.Println(KMeans(points, 3))
	// Output: [0 1 0 1 2 0]
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
