package encoder_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/semcon/semcon/sccore/encoder"
)

func TestDropPathsRiseToTheLastBlock(t *testing.T) {
	const depth, batch = 4, 2000
	factors := encoder.DropPaths(rand.New(rand.NewPCG(1, 2)), 0.3, depth, batch)
	for block, share := range []float64{0, 0.1, 0.2, 0.3} {
		dropped, sum := 0, 0.0
		for _, factor := range factors[block*2*batch : (block+1)*2*batch] {
			if sum += float64(factor); factor == 0 {
				dropped++
			}
		}
		if got := float64(dropped) / (2 * batch); !(math.Abs(got-share) <= 0.03) {
			t.Errorf("block %d drops %.3f, want %.1f", block, got, share)
		}
		if mean := sum / (2 * batch); !(math.Abs(mean-1) <= 0.05) {
			t.Errorf("block %d: the mean factor is %.3f, want 1", block, mean)
		}
	}
}
