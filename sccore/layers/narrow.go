package layers

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
)

// NarrowGELU is x·Φ(x) for x in half precision, with the exact normal distribution function Φ. It is computed in float32. The backward pass computes Φ
// again from x, which is all that is kept: a compiler would keep Φ in float32.
func NarrowGELU(x *Node) *Node {
	wide := func(x *Node) *Node { return ConvertDType(x, dtypes.Float32) }
	y := Mul(wide(x), MulScalar(AddScalar(Erf(MulScalar(wide(x), math.Sqrt2/2)), 1), 0.5))
	return withGradient(StopGradient(ConvertDType(y, x.DType())), x, func(adjoint *Node) *Node {
		x := wide(OptimizationBarrier(x)) // So that nothing is shared with the forward pass.
		cdf := MulScalar(AddScalar(Erf(MulScalar(x, math.Sqrt2/2)), 1), 0.5)
		density := MulScalar(Exp(MulScalar(Square(x), -0.5)), 1/math.Sqrt(2*math.Pi))
		return Mul(wide(adjoint), Add(cdf, Mul(x, density)))
	})
}

// NarrowNorm shifts and scales each vector on the last axis of x, in half precision, to mean 0 and variance 1, multiplies by weight and adds bias, both
// in float32. It is computed in float32. The backward pass keeps x, and the mean and the scale of each vector.
func NarrowNorm(x, weight, bias *Node, epsilon float64) *Node {
	dims, dtype := x.Shape().Dimensions, x.DType()
	x = Reshape(x, -1, dims[len(dims)-1])
	wide := func(x *Node) *Node { return ConvertDType(x, dtypes.Float32) }
	rows := func(x *Node) *Node { return ReduceAndKeep(x, ReduceMean, -1) }
	all := func(vector *Node) *Node { return BroadcastToDims(InsertAxes(vector, 0), x.Shape().Dimensions...) }
	mean := StopGradient(rows(wide(x)))
	scale := StopGradient(Inverse(Sqrt(AddScalar(rows(Square(Sub(wide(x), mean))), epsilon))))
	again := func() *Node { return Mul(Sub(wide(OptimizationBarrier(x)), mean), scale) }

	y := StopGradient(ConvertDType(Add(Mul(Mul(Sub(wide(x), mean), scale), all(weight)), all(bias)), dtype))
	y = withGradient(y, x, func(adjoint *Node) *Node {
		normal, adjoint := again(), Mul(wide(adjoint), all(weight))
		return Mul(scale, Sub(Sub(adjoint, rows(adjoint)), Mul(normal, rows(Mul(adjoint, normal)))))
	})
	y = withGradient(y, all(weight), func(adjoint *Node) *Node { return Mul(adjoint, again()) })
	y = withGradient(y, all(bias), func(adjoint *Node) *Node { return adjoint })
	return Reshape(y, dims...)
}

// withGradient adds to the gradients that y passes one for x, which has the shape of y. gradient maps the adjoint of the result, in the dtype of x, to
// that of x.
func withGradient(y, x *Node, gradient func(adjoint *Node) *Node) *Node {
	carrier := IdentityWithCustomGradient(x, func(_, adjoint *Node) *Node { return ConvertDType(gradient(adjoint), x.DType()) })
	return Add(y, ConvertDType(Sub(carrier, StopGradient(x)), y.DType())) // The difference is zero; it carries the gradient.
}
