// Package gradcheck compares gradients of graph functions with finite differences.
package gradcheck

import (
	"math"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
)

// Scalar checks the gradient of f, a scalar function of float64 inputs, at every entry of every input with central differences of width 2·1e-5.
// Entries must agree up to tolerance, relative to the largest entry of the input's gradient (at least 1e-8).
func Scalar(t *testing.T, b compute.Backend, f func(inputs []*graph.Node) *graph.Node, tolerance float64, inputs ...*tensors.Tensor) {
	t.Helper()
	value := graph.MustNewExec(b, func(nodes []*graph.Node) *graph.Node { return f(nodes) })
	defer value.Finalize()
	gradient := graph.MustNewExec(b, func(nodes []*graph.Node) []*graph.Node { return graph.Gradient(f(nodes), nodes...) })
	defer gradient.Finalize()

	args := make([]any, len(inputs))
	for i, input := range inputs {
		args[i] = input
	}
	got := gradient.MustCall(args...)
	const step = 1e-5
	for i, input := range inputs {
		flat := tensors.MustCopyFlatData[float64](input)
		analytic := tensors.MustCopyFlatData[float64](got[i])
		numeric := make([]float64, len(flat))
		largest := 1e-8
		for j := range flat {
			at := func(x float64) float64 {
				moved := append([]float64(nil), flat...)
				moved[j] = x
				args[i] = tensors.FromFlatDataAndDimensions(moved, input.Shape().Dimensions...)
				return value.MustCall(args...)[0].Value().(float64)
			}
			numeric[j] = (at(flat[j]+step) - at(flat[j]-step)) / (2 * step)
			largest = max(largest, math.Abs(numeric[j]))
		}
		args[i] = input
		for j := range flat {
			if diff := math.Abs(analytic[j] - numeric[j]); !(diff <= tolerance*largest) {
				t.Errorf("input %d entry %d: gradient %g, finite differences %g", i, j, analytic[j], numeric[j])
			}
		}
	}
}
