package losses_test

import (
	"testing"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/internal/usage"
	"github.com/semcon/semcon/losses"
)

// TestBruteForceHoldsBlocks: 4,000 pairs make 16 million comparisons. A tensor of all of them has 64 MB, and the loss with its gradient holds many.
func TestBruteForceHoldsBlocks(t *testing.T) {
	const n = 4000
	scores := make([]float32, n)
	for i := range scores {
		scores[i] = float32(i*7919%n) / n
	}
	exec := withGradient(t, testbackend.Go(t), losses.DefaultCoTAP().BruteForce)
	peak := usage.PeakMemory(func() {
		out, err := exec.Call(tensors.FromValue([][]float32{scores}), tensors.FromValue([][]float32{scores}))
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range out {
			x.MustFinalizeAll()
		}
	})
	if peak > 220<<20 {
		t.Errorf("the process grew by %d MB", peak>>20)
	}
}
