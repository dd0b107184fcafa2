package testbackend

import (
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/backend"
)

// devices has what [Devices] has opened, by the number of devices.
var devices sync.Map

// Devices opens XLA for n devices, virtual ones with the CPU plugin. It skips the test if XLA is not installed, or has too few GPUs.
func Devices(t testing.TB, n int) compute.Backend {
	t.Helper()
	if !HasXLA() {
		t.Skip("several devices need XLA, which is not installed")
	}
	compileQuickly()
	if n == 1 {
		return backends()[1].get(t)
	}
	if b, ok := devices.Load(n); ok {
		return b.(compute.Backend)
	}
	b, err := backend.OpenDevices(n)
	if err != nil {
		if strings.Contains(backend.Name(), "cuda") {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	devices.Store(n, b)
	return b
}

// Values copies the variables of a store in float32.
func Values(t testing.TB, store *model.Store) map[string][]float32 {
	t.Helper()
	values := map[string][]float32{}
	for variable := range store.IterVariables() {
		if value, err := tensors.CopyFlatData[float32](variable.MustValue()); err == nil {
			values[variable.Path()] = value
		}
	}
	return values
}

// Distance is the Euclidean distance of two sets of variables over the length of the second. It leaves out the state of optimizers, and the biases of keys: they
// add the same to all scores of a softmax, so that their gradient is 0 but for rounding, which Adam scales up.
func Distance(got, want map[string][]float32) float64 {
	difference, length := 0.0, 0.0
	for path, values := range want {
		if strings.HasPrefix(path, "/optimizer") || strings.HasSuffix(path, "/qkv/bias") || strings.HasSuffix(path, "/k/bias") {
			continue
		}
		for i, x := range values {
			d := float64(got[path][i]) - float64(x)
			difference, length = difference+d*d, length+float64(x)*float64(x)
		}
	}
	return math.Sqrt(difference / length)
}
