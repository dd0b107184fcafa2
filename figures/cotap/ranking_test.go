package cotap

import (
	"math"
	"os"
	"testing"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
)

func TestRanking(t *testing.T) {
	p, q, _ := synthetic.CorrespondenceScores(14, 0.2, 0.12, 0)
	row, err := Ranking(p, q)
	if err != nil {
		t.Fatal(err)
	}
	want, err := losses.CoTAPDefinition(p, q, func(float64) float64 { return 1 })
	if err != nil {
		t.Fatal(err)
	}
	if sum := row[1].Series[0].Y; !(math.Abs(sum[len(sum)-1]-want) <= 1e-9) {
		t.Errorf("the losses sum up to %g, the definition is %g", sum[len(sum)-1], want)
	}
	if first := row[0].Series[0].Y[0]; first != 0 {
		t.Errorf("where all pairs are positive, the AP loss is %g", first)
	}
	// Where the student puts pairs first, those that the teacher holds most alike are pulled up more than those that it holds least alike.
	if best, worst := row[2].Series[0].Y, row[2].Series[2].Y; !(best[1] > worst[1]) || !(best[1] > 0) {
		t.Errorf("pulls %v of the best pairs, %v of the worst", best, worst)
	}
	dir := os.Getenv("SEMCON_TEST_FIGURES")
	if dir == "" {
		dir = t.TempDir()
	}
	if err := figures.SaveFigure(dir, "cotap-ranking", row); err != nil {
		t.Error(err)
	}
	if _, err := Ranking(p[:3], q[:3]); err == nil {
		t.Error("three pairs have a ranking")
	}
	if _, err := Ranking(append([]float64{2}, p[1:]...), q); err == nil {
		t.Error("a score of 2")
	}
}
