package detection

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/tensors"
)

// readGolden reads a file of testdata.
func readGolden(t testing.TB, name string, into any) {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// flat returns the values of a tensor of floats, or of a list of lists of them.
func flat(values any) []float64 {
	tensor, ok := values.(*tensors.Tensor)
	if !ok {
		tensor = tensors.MustFromAnyValue(values)
	}
	if tensor.DType() == dtypes.Float64 {
		return tensors.MustCopyFlatData[float64](tensor)
	}
	var wide []float64
	for _, v := range tensors.MustCopyFlatData[float32](tensor) {
		wide = append(wide, float64(v))
	}
	return wide
}

// agree compares values, up to tolerance times the largest of want, at least 1.
func agree(t *testing.T, what string, got, want any, tolerance float64) {
	t.Helper()
	g, w := flat(got), flat(want)
	if len(g) != len(w) {
		t.Fatalf("%s: %d values, want %d", what, len(g), len(w))
	}
	largest := 1.0
	for _, v := range w {
		largest = max(largest, math.Abs(v))
	}
	for i := range w {
		if !(math.Abs(g[i]-w[i]) <= tolerance*largest) {
			t.Errorf("%s, value %d of %d: %g, want %g", what, i, len(w), g[i], w[i])
			return
		}
	}
}

// sines returns a tensor of values of a sine. The values depend on k.
func sines(k int, dims ...int) *tensors.Tensor {
	size := 1
	for _, d := range dims {
		size *= d
	}
	values := make([]float64, size)
	for i := range values {
		values[i] = math.Sin(12.9898*float64(i) + 78.233*float64(k))
	}
	return tensors.FromFlatDataAndDimensions(values, dims...)
}
