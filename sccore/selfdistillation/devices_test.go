package selfdistillation

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/semcon/semcon/internal/testbackend"
)

// TestTwoDevicesEqualOne trains each method on two devices and on one, and resumes the checkpoint of each on the other. Centres, masks, queues and memories
// cover the whole batch.
func TestTwoDevicesEqualOne(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	for _, method := range Names {
		t.Run(method, func(t *testing.T) {
			two := newTrainer(t, testbackend.Devices(t, 2), long(method))
			one := onXLA(t, method)
			ofOne, ofTwo := filepath.Join(t.TempDir(), "one.safetensors"), filepath.Join(t.TempDir(), "two.safetensors")
			for _, trainer := range []*Trainer{one, two} {
				if err := trainer.Begin(1); err != nil {
					t.Fatal(err)
				}
			}
			want := learn(t, one, 10)
			weights := testbackend.Values(t, one.Store())

			got := learn(t, two, 5)
			if err := two.Save(ofTwo, ""); err != nil {
				t.Fatal(err)
			}
			agree(t, "on two devices", append(got, learn(t, two, 5)...), want)
			distance := testbackend.Distance(testbackend.Values(t, two.Store()), weights)
			if t.Logf("the weights are %.1e apart", distance); !(distance < 1e-4) {
				t.Errorf("the weights are %g apart", distance)
			}

			if _, err := one.Resume(ofTwo); err != nil {
				t.Fatal(err)
			}
			agree(t, "resumed on one", learn(t, one, 3), want[5:8])
			if err := one.Save(ofOne, ""); err != nil {
				t.Fatal(err)
			}
			if _, err := two.Resume(ofOne); err != nil {
				t.Fatal(err)
			}
			agree(t, "resumed on two", learn(t, two, 2), want[8:])
		})
	}
}

// agree compares the losses of steps and the norms of their gradients.
func agree(t *testing.T, what string, got, want []StepMetrics) {
	t.Helper()
	var off []float64
	for step, w := range want {
		g := got[step]
		off = append(off, max(math.Abs(g.Total-w.Total)/math.Abs(w.Total), math.Abs(g.GradientNorm-w.GradientNorm)/w.GradientNorm))
	}
	testbackend.Agree(t, what, off)
}
