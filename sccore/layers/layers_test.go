package layers

import (
	"math"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"
)

// sines returns a tensor of values of a sine. The values depend on k.
func sines[T float32 | float64](k int, dims ...int) *tensors.Tensor {
	size := 1
	for _, d := range dims {
		size *= d
	}
	values := make([]T, size)
	for i := range values {
		values[i] = T(math.Sin(12.9898*float64(i) + 78.233*float64(k)))
	}
	return tensors.FromFlatDataAndDimensions(values, dims...)
}

// float64s returns the values of a float32 tensor.
func float64s(t *tensors.Tensor) (values []float64) {
	for _, v := range tensors.MustCopyFlatData[float32](t) {
		values = append(values, float64(v))
	}
	return values
}

// checkClose compares values with a tolerance of 1e-5 of the largest.
func checkClose(t *testing.T, what string, got, want []float64) {
	t.Helper()
	largest := 0.0
	for _, v := range want {
		largest = max(largest, math.Abs(v))
	}
	agree := len(got) == len(want)
	for i := range want {
		agree = agree && math.Abs(got[i]-want[i]) <= 1e-5*largest
	}
	if !agree {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
