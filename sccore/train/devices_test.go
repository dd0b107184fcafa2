package train_test

import (
	"math"
	"strings"
	"testing"

	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/train"
)

// shared is inParts on several devices.
type shared struct{ inParts }

func (*shared) Divided() []bool { return []bool{true, true} }

func (*shared) Workload() train.Workload { return train.Workload{Images: 8} }

// TestDevicesShareTheParts accumulates gradients over the parts of a batch, each of which two devices share.
func TestDevicesShareTheParts(t *testing.T) {
	objective := &shared{inParts{leastSquares: leastSquares{steps: 30, rate: 0.1}}}
	one, two := newTrainer(t, testbackend.Devices(t, 1), objective), newTrainer(t, testbackend.Devices(t, 2), objective)
	for _, trainer := range []*train.Trainer[float64]{one, two} {
		if err := trainer.Begin(1); err != nil {
			t.Fatal(err)
		}
	}
	want := steps(t, one, 30)
	for i, got := range steps(t, two, 30) {
		if math.Abs(got-want[i]) > 1e-6 {
			t.Errorf("step %d: loss %g on two devices, %g on one", i, got, want[i])
		}
	}
	if distance := testbackend.Distance(testbackend.Values(t, two.Store()), testbackend.Values(t, one.Store())); !(distance < 1e-6) {
		t.Errorf("the weights are %g apart", distance)
	}
}

func TestDevicesThatCannotShareABatch(t *testing.T) {
	b := testbackend.Devices(t, 3)
	_, err := train.New(b, &shared{inParts{leastSquares: leastSquares{steps: 30, rate: 0.1}}})
	if err == nil || !strings.Contains(err.Error(), "devices 3: they cannot share 4 images") {
		t.Errorf("got %v", err)
	}
}
