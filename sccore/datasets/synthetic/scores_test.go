package synthetic

import (
	"math"
	"slices"
	"testing"
)

func TestCorrespondenceScores(t *testing.T) {
	p, q, same := CorrespondenceScores(20, 0.3, 0.1, 1)
	if len(p) != 400 || len(q) != 400 || len(same) != 400 {
		t.Fatalf("%d, %d, %d scores of 20 patches", len(p), len(q), len(same))
	}
	// The teacher has less noise and separates the classes better, relative to the spread of its scores.
	apart := func(scores []float64) float64 {
		var sum, squares, of [2]float64
		for i, x := range scores {
			if !(x >= 0 && x <= 1) {
				t.Fatalf("score %v", x)
			}
			kind := 0
			if same[i] {
				kind = 1
			}
			sum[kind], squares[kind], of[kind] = sum[kind]+x, squares[kind]+x*x, of[kind]+1
		}
		mean := [2]float64{sum[0] / of[0], sum[1] / of[1]}
		return (mean[1] - mean[0]) / math.Sqrt(squares[0]/of[0]-mean[0]*mean[0]+squares[1]/of[1]-mean[1]*mean[1])
	}
	if !(apart(q) > apart(p) && apart(p) > 0) {
		t.Errorf("classes are apart by %v for the student, %v for the teacher", apart(p), apart(q))
	}
	again, _, _ := CorrespondenceScores(20, 0.3, 0.1, 1)
	other, _, _ := CorrespondenceScores(20, 0.3, 0.1, 2)
	if !slices.Equal(p, again) || slices.Equal(p, other) {
		t.Error("scores do not follow the seed")
	}
}
