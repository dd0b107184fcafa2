package losses

import (
	"math"

	. "github.com/gomlx/gomlx/core/graph"
)

// bruteForceUpTo is the number of pairs up to which going through all pairs of pairs is cheaper than sorting them.
const bruteForceUpTo = 256

// Loss computes the loss exactly over all pairs: a scalar of p's dtype, the mean over image pairs.
//
// p and q, [B, N] or [N] for one image pair, hold the scores of the N patch pairs of each of B image pairs, of one dtype. Differentiable in
// p as [CoTAP] says. Sums are kept in float64, those over few pairs in the dtype of the scores. Where a score is NaN or outside [0, 1] the loss
// and the whole gradient are NaN. XLA takes denormal scores for 0.
//
// Time and memory are of order N log N: see cotap_tree.go and cotap_level.go. Few pairs are compared one with one.
func (c CoTAP) Loss(p, q *Node) *Node {
	if p.Shape().Dimensions[p.Rank()-1] <= bruteForceUpTo {
		return c.BruteForce(p, q)
	}
	return c.loss(p, q, newPairTree)
}

// BruteForce is [CoTAP.Loss] by comparing each pair with each other, in a time of order N² and in the dtype of the scores: what the fast
// form is held against.
func (c CoTAP) BruteForce(p, q *Node) *Node { return c.loss(p, q, newAllPairs) }

// pairSums are an algorithm's sums over pairs of pairs. Their entries stand in an order of the algorithm's own, and all are float64.
type pairSums interface {
	// target gives q, and valid tells entries from padding.
	target() (q, valid *Node)
	// forward gives Σ_{q_j < q_i} ℓ(p_i − p_j), 1/ψ_i, and the slope −τ²/2 Σ_{q_j < q_i} ℓ'(p_i − p_j).
	forward() (huber, same, slope *Node)
	// pull gives −τ²/2 Σ_{q_k > q_i} weight_k ℓ'(p_k − p_i).
	pull(weight *Node) *Node
	// restore brings entries into the order and shape of the inputs.
	restore(entries *Node) *Node
}

// loss is the loss with the sums of an algorithm. newSums takes scores of shape [B, N] that are all in [0, 1].
func (c CoTAP) loss(p, q *Node, newSums func(p, q *Node, margin float64) pairSums) *Node {
	if err := c.Check(); err != nil {
		panic(err)
	}
	g, dtype, shape := p.Graph(), p.DType(), p.Shape()
	q.AssertDims(shape.Dimensions...)
	fixed, q := StopGradient(p), StopGradient(q)
	n := shape.Dimensions[shape.Rank()-1]
	pairs := shape.Size()
	good := And(inUnit(fixed), inUnit(q))
	nanIfBad := Where(LogicalAll(good), Scalar(g, dtype, 1.0), Scalar(g, dtype, math.NaN()))
	// The comparison with zero rids scores of NaN and of negative zero, which sort by themselves.
	clean := func(x *Node) *Node {
		return Reshape(Where(And(good, GreaterThan(x, ScalarZero(g, dtype))), x, ZerosLike(x)), pairs/n, n)
	}

	sums := newSums(clean(fixed), clean(q), c.Tau2)
	huber, same, slope := sums.forward()
	target, valid := sums.target()
	gamma := Where(valid, MaxScalar(AddScalar(target, -c.Tau1), 0.0), ZerosLike(target))
	total := Add(huber, same)
	value := DivScalar(ReduceAllSum(Mul(gamma, Div(huber, total))), float64(pairs))
	value = Mul(nanIfBad, ConvertDType(value, dtype))

	// The sum below is zero and carries the gradient.
	carrier := IdentityWithCustomGradient(p, func(_, adjoint *Node) *Node {
		weight := Div(Mul(gamma, same), Square(total))
		gradient := Sub(sums.pull(weight), Mul(weight, slope))
		gradient = MulScalar(gradient, 2/(c.Tau2*c.Tau2*float64(pairs)))
		gradient = Mul(nanIfBad, Reshape(ConvertDType(sums.restore(gradient), dtype), shape.Dimensions...))
		return Mul(adjoint, gradient)
	})
	return Add(StopGradient(value), ReduceAllSum(Sub(carrier, fixed)))
}

// inUnit tells which scores are in [0, 1].
func inUnit(x *Node) *Node {
	g := x.Graph()
	return And(GreaterOrEqual(x, ScalarZero(g, x.DType())), LessOrEqual(x, ScalarOne(g, x.DType())))
}
