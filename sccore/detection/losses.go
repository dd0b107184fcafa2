package detection

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
)

// binaryCrossEntropy returns the loss of each logit for a target of 0 or 1. Its slope at a logit of exactly 0 is 1/2 − target, as it should be: the halves of
// x + |x| keep it so.
func binaryCrossEntropy(logits, targets *Node) *Node {
	size := Abs(logits)
	softplus := Add(MulScalar(Add(logits, size), 0.5), Log1P(Exp(Neg(size))))
	return Sub(softplus, Mul(logits, targets))
}

// smoothL1 returns x²/(2·beta) where |x| is below beta, else |x| − beta/2 (Girshick, Fast R-CNN, 2015).
func smoothL1(x *Node, beta float64) *Node {
	size := Abs(x)
	return Where(LessThan(size, Scalar(x.Graph(), x.DType(), beta)), MulScalar(Square(x), 0.5/beta), AddScalar(size, -0.5*beta))
}

// asNumbers returns a mask as zeros and ones. No gradient passes; the search for paths of the gradient would follow the mask to the scores behind it.
func asNumbers(mask *Node, dtype dtypes.DType) *Node { return StopGradient(ConvertDType(mask, dtype)) }

// masked sums values where mask is true. Both have the same shape.
func masked(values, mask *Node) *Node {
	return ReduceAllSum(Where(mask, values, ZerosLike(values)))
}

// number counts what mask marks, and is at least 1.
func number(mask *Node, dtype dtypes.DType) *Node {
	return StopGradient(MaxScalar(ReduceAllSum(asNumbers(mask, dtype)), 1))
}
