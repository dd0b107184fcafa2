package losses

import (
	"fmt"
	"math"
	"slices"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/semcon/semcon/losses/internal/pairsum"
)

// CoTAP is the differentiable continuous-target AP loss (the display after eq. sur_loss): the mean over patch pairs i of
//
//	γ̃_i g(ψ_i Σ_{q_j < q_i} ℓ(p_i − p_j)),   1/ψ_i = #{j: q_j ≥ q_i, p_j ≥ p_i},   γ̃_i = max(q_i − Tau1, 0),   g(x) = x/(1+x)
//
// with the one-sided Huber loss ℓ of margin τ = Tau2 (eq. sur_loss as erratum E1 corrects it): ℓ(x) is 1 − 2x/τ below 0, (1 − x/τ)² from 0 to
// τ, and 0 beyond. p_i are the online branch's scores of the pairs, and q_i the target branch's. Ties count as the formula says: pairs of
// equal q are no negatives of one another, and pairs of equal p are in ψ.
//
// The gradient goes through ℓ alone: ψ and γ̃ are weights and q is the target, so all three are constants. It is zero where each pair
// outranks all pairs of lower q by Tau2.
type CoTAP struct {
	Tau1 float64 `json:"tau1"` // From −10⁴ to 1: pairs with q ≤ Tau1 have no weight.
	Tau2 float64 `json:"tau2"` // From 10⁻⁴ to 10⁴: the margin by which a pair should outrank those of lower q.
}

// The hyper-parameters' limits. A smaller margin is none between scores in [0, 1]: the sums of 1, p and p² that the fast forms take their
// differences of are divided by Tau2², so errors grow with its inverse: in float64 the gradient's is up to 4·10⁻⁸ of the largest entry here.
// Above, all pairs are within the margin and all weights are equal to four digits; far above, squares overflow.
const leastMargin, limit = 1e-4, 1e4

// DefaultCoTAP has the paper's hyper-parameters ("Optimization strategy").
func DefaultCoTAP() CoTAP { return CoTAP{Tau1: -0.2, Tau2: 0.5} }

// Check returns an error that names the first hyper-parameter out of range.
func (c CoTAP) Check() error {
	if !(c.Tau1 >= -limit && c.Tau1 <= 1) {
		return fmt.Errorf("tau1 %v is not in [%v, 1]", c.Tau1, -limit)
	}
	if !(c.Tau2 >= leastMargin && c.Tau2 <= limit) {
		return fmt.Errorf("tau2 %v is not in [%v, %v]", c.Tau2, leastMargin, limit)
	}
	return nil
}

// bruteForceUpTo is the number of pairs up to which going through all pairs of pairs is cheaper than sorting them.
const bruteForceUpTo = 256

// Loss computes the loss exactly over all pairs: a scalar of p's dtype, the mean over image pairs.
//
// p and q, [B, N] or [N] for one image pair, hold the scores of the N patch pairs of each of B image pairs, of one dtype. Differentiable in
// p as [CoTAP] says. Sums are kept in float64, those over few pairs in the dtype of the scores. Where a score is NaN or outside [0, 1] the loss
// and the whole gradient are NaN. XLA takes denormal scores for 0.
//
// Time and memory are of order N log N: see package pairsum. Few pairs are compared one with one.
func (c CoTAP) Loss(p, q *Node) *Node {
	if p.Shape().Dimensions[p.Rank()-1] <= bruteForceUpTo {
		return c.BruteForce(p, q)
	}
	return c.loss(p, q, pairsum.Tree)
}

// BruteForce is [CoTAP.Loss] by comparing each pair with each other, in a time of order N² and in the dtype of the scores: what the fast
// form is held against.
func (c CoTAP) BruteForce(p, q *Node) *Node { return c.loss(p, q, pairsum.BruteForce) }

// loss is the loss with the sums of an algorithm. newSums takes scores of shape [B, N] that are all in [0, 1].
func (c CoTAP) loss(p, q *Node, newSums func(p, q *Node, margin float64) pairsum.Sums) *Node {
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
	huber, same, slope := sums.Forward()
	target, valid := sums.Target()
	gamma := Where(valid, MaxScalar(AddScalar(target, -c.Tau1), 0.0), ZerosLike(target))
	total := Add(huber, same)
	value := DivScalar(ReduceAllSum(Mul(gamma, Div(huber, total))), float64(pairs))
	value = Mul(nanIfBad, ConvertDType(value, dtype))

	// The sum below is zero and carries the gradient.
	carrier := IdentityWithCustomGradient(p, func(_, adjoint *Node) *Node {
		weight := Div(Mul(gamma, same), Square(total))
		gradient := Sub(sums.Pull(weight), Mul(weight, slope))
		gradient = MulScalar(gradient, 2/(c.Tau2*c.Tau2*float64(pairs)))
		gradient = Mul(nanIfBad, Reshape(ConvertDType(sums.Restore(gradient), dtype), shape.Dimensions...))
		return Mul(adjoint, gradient)
	})
	return Add(StopGradient(value), ReduceAllSum(Sub(carrier, fixed)))
}

// inUnit tells which scores are in [0, 1].
func inUnit(x *Node) *Node {
	g := x.Graph()
	return And(GreaterOrEqual(x, ScalarZero(g, x.DType())), LessOrEqual(x, ScalarOne(g, x.DType())))
}

// Evaluate computes the loss of n patch pairs and its gradient in p without a device, exactly over all pairs, in a time of order n log n and
// float64. p and q hold one score in [0, 1] a pair. A score that is NaN or outside, slices of different lengths, no pairs and
// hyper-parameters out of range are errors.
//
// What pulls at a pair as another's negative comes from the pairs of higher q whose p is lower, or higher by less than Tau2: with both orders
// turned round it is the sum over pairs of lower q that the loss is made of.
func (c CoTAP) Evaluate(p, q []float64) (loss float64, gradient []float64, err error) {
	return c.evaluate(p, q, pairsum.MostDigitBits)
}

func (c CoTAP) evaluate(p, q []float64, digitBits int) (loss float64, gradient []float64, err error) {
	if err := c.Check(); err != nil {
		return 0, nil, err
	}
	if err := checkScores(p, q); err != nil {
		return 0, nil, err
	}
	n, square := len(p), c.Tau2*c.Tau2
	byP := pairsum.Descending(p)
	pairs, ranks := pairsum.Pairs(byP, pairsum.Descending(q))
	sweep := pairsum.NewSweep(c.Tau2, ranks, digitBits)
	sums := sweep.Lower(pairs)
	targets := make([]float64, n) // By descending p too. Gathered in a loop of its own: in the one below each read would be waited for.
	for at, pair := range byP {
		targets[at] = q[pair.Index]
	}
	pairsum.TieGroups(byP, func(begin, end int) {
		for at := begin; at < end; at++ {
			gamma, same := max(0, targets[at]-c.Tau1), float64(end)-sums[at].Above // γ̃ and 1/ψ
			huber := max(0, sums[at].Huber) / square
			loss += gamma * huber / (huber + same)
			weight := gamma * same / ((huber + same) * (huber + same)) // γ̃ ψ g'(ψ Σ ℓ)
			sums[at].Slope *= weight
			pairs[at] = pairsum.Pair{P: -pairs[at].P, Weight: weight, Rank: ranks - 1 - pairs[at].Rank}
		}
	})

	slices.Reverse(pairs)
	pulls := sweep.Lower(pairs)
	gradient = make([]float64, n)
	for at, pair := range byP {
		gradient[pair.Index] = 2 / (square * float64(n)) * (pulls[n-1-at].Slope - sums[at].Slope)
	}
	return loss / float64(n), gradient, nil
}
