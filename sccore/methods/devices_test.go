package methods

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
)

// TestTwoDevicesEqualOne trains each method on two devices and on one, and resumes the checkpoint of each on the other. Batch normalisation, correlations,
// negatives and the queue cover the whole batch.
func TestTwoDevicesEqualOne(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	images := synthetic.Images(20, 32, 1)
	for _, method := range Names {
		t.Run(method, func(t *testing.T) {
			config := small(method)
			config.Batch, config.Epochs, config.Queue = 20, 10, 2*config.Queue
			config.LearningRate = 1e-4 // Larger steps scale up a rounding at the kink of a ReLU.
			one, two := newTrainer(t, testbackend.Devices(t, 1), images, config), newTrainer(t, testbackend.Devices(t, 2), images, config)
			ofOne, ofTwo := filepath.Join(t.TempDir(), "one.safetensors"), filepath.Join(t.TempDir(), "two.safetensors")
			begin(t, one, 7)
			want := learn(t, one, 10)
			weights := testbackend.Values(t, one.Store())

			begin(t, two, 7)
			got := learn(t, two, 5)
			if err := two.Save(ofTwo, ""); err != nil {
				t.Fatal(err)
			}
			agree(t, "on two devices", append(got, learn(t, two, 5)...), want)
			distance := testbackend.Distance(testbackend.Values(t, two.Store()), weights)
			if t.Logf("the weights are %.1e apart", distance); !(distance < 1e-4) {
				t.Errorf("the weights are %g apart", distance)
			}

			begin(t, one, 7)
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

// agree compares the losses of steps.
func agree(t *testing.T, what string, got, want []float64) {
	t.Helper()
	var off []float64
	for step := range want {
		off = append(off, math.Abs(got[step]-want[step])/max(1, math.Abs(want[step]))) // A cosine may be near 0.
	}
	testbackend.Agree(t, what, off)
}
