package losses

import . "github.com/gomlx/gomlx/core/graph"

// bceFloor keeps the logarithms of scores 0 and 1 finite.
const bceFloor = 1e-7

// BCE is the binary cross-entropy of online scores p with target scores q as soft labels ("Patch correspondence distillation"), the mean over all
// entries. It is what CoTAP is compared with. p and q are in [0, 1] and of one shape. Differentiable in p only.
func BCE(p, q *Node) *Node {
	q.AssertDims(p.Shape().Dimensions...)
	q = StopGradient(q)
	log := func(x *Node) *Node { return Log(MaxScalar(x, bceFloor)) }
	return Neg(ReduceAllMean(Add(Mul(q, log(p)), Mul(OneMinus(q), log(OneMinus(p))))))
}
