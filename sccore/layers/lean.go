package layers

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
)

// GELU is x·Φ(x) with the exact normal distribution function Φ (Hendrycks and Gimpel, 2016), not an approximation.
func GELU(x *Node) *Node { return Mul(x, normalCDF(x)) }

// normalCDF is Φ(x), the distribution function of the standard normal distribution.
func normalCDF(x *Node) *Node { return MulScalar(AddScalar(Erf(MulScalar(x, math.Sqrt2/2)), 1), 0.5) }

// LeanGELU is [GELU], computed in at least float32. Its gradient is written by hand: the backward pass computes Φ again from x, which is all that is kept.
func LeanGELU(x *Node) *Node {
	wide := func(x *Node) *Node { return ConvertDType(x, AtLeastFloat32(x.DType())) }
	y := GELU(wide(x))
	return withGradient(StopGradient(ConvertDType(y, x.DType())), x, func(adjoint *Node) *Node {
		x := wide(OptimizationBarrier(x)) // So that nothing is shared with the forward pass.
		density := MulScalar(Exp(MulScalar(Square(x), -0.5)), 1/math.Sqrt(2*math.Pi))
		return Mul(wide(adjoint), Add(normalCDF(x), Mul(x, density)))
	})
}

// LeanSoftmax is the softmax of x over its last axis. Its gradient is written by hand: the backward pass keeps the result alone.
func LeanSoftmax(x *Node) *Node {
	y := StopGradient(Softmax(x, -1))
	return withGradient(y, x, func(adjoint *Node) *Node {
		return Mul(y, Sub(adjoint, ReduceAndKeep(Mul(adjoint, y), ReduceSum, -1)))
	})
}

// LeanNorm is [LeanNormal], multiplied by weight, with bias added, both in at least float32.
func LeanNorm(x, weight, bias *Node, epsilon float64) *Node {
	y := ConvertDType(LeanNormal(x, epsilon), AtLeastFloat32(x.DType()))
	return ConvertDType(Add(Mul(y, ExpandLeftToRank(weight, x.Rank())), ExpandLeftToRank(bias, x.Rank())), x.DType())
}

// LeanNormal shifts and scales each vector on the last axis of x to mean 0 and variance 1. It is computed in at least float32. Its gradient is written by
// hand: the backward pass keeps x alone.
func LeanNormal(x *Node, epsilon float64) *Node {
	dims, dtype := x.Shape().Dimensions, x.DType()
	x = Reshape(x, -1, dims[len(dims)-1])
	wide := func(x *Node) *Node { return ConvertDType(x, AtLeastFloat32(dtype)) }
	rows := func(x *Node) *Node { return ReduceAndKeep(x, ReduceMean, -1) }
	// normal takes a multiple of x.
	normal := func(x *Node, factor float64) (y, scale *Node) {
		centred := Sub(x, rows(x))
		scale = Inverse(Sqrt(AddScalar(rows(Square(centred)), factor*factor*epsilon)))
		return Mul(centred, scale), MulScalar(scale, factor)
	}
	y, _ := normal(wide(x), 1)
	y = withGradient(StopGradient(ConvertDType(y, dtype)), x, func(adjoint *Node) *Node {
		// Of twice x it is the same to the last bit. A GPU makes one pass over memory of each direction so; of x it would keep means and scales, and
		// read x three times in the forward pass.
		normal, scale := normal(MulScalar(wide(x), 2), 2)
		adjoint = wide(adjoint)
		return Mul(scale, Sub(Sub(adjoint, rows(adjoint)), Mul(normal, rows(Mul(adjoint, normal)))))
	})
	return Reshape(y, dims...)
}

// AtLeastFloat32 is the dtype for operations that half precision is too coarse for: float32 for half types, and dtype itself for others.
func AtLeastFloat32(dtype dtypes.DType) dtypes.DType {
	if dtype.IsHalfPrecision() {
		return dtypes.Float32
	}
	return dtype
}

// withGradient adds to the gradients that y passes one for x, which has the shape of y. gradient maps the adjoint of the result, in the dtype of x, to
// that of x.
func withGradient(y, x *Node, gradient func(adjoint *Node) *Node) *Node {
	carrier := IdentityWithCustomGradient(x, func(_, adjoint *Node) *Node { return ConvertDType(gradient(adjoint), x.DType()) })
	return Add(y, ConvertDType(Sub(carrier, StopGradient(x)), y.DType())) // The difference is zero; it carries the gradient.
}
