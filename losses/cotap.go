package losses

import (
	"cmp"
	"math"
	"slices"

	"github.com/dsnet/try"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/samber/lo"
	"github.com/semcon/semcon/losses/internal/pairsum"
	"github.com/semcon/semcon/sccore/settings"
)

// CoTAP is the differentiable continuous-target AP loss (the display after eq. sur_loss): the mean over patch pairs i of
//
//	γ̃_i g(ψ_i Σ_{q_j < q_i} ℓ(p_i − p_j)),   1/ψ_i = #{j: q_j ≥ q_i, p_j ≥ p_i},   γ̃_i = max(q_i − τ1, 0),   g(x) = x/(1+x)
//
// with τ1 = Threshold and the one-sided Huber loss ℓ of margin τ = Margin, the paper's τ2 (eq. sur_loss as corrected by erratum E1): ℓ(x) is 1 − 2x/τ
// below 0, (1 − x/τ)² from 0 to τ, and 0 beyond. p_i are the pairs' scores in the online branch, q_i those in the target branch. Ties follow the
// formula: pairs of equal q are not negatives of one another, and pairs of equal p count in ψ.
//
// The gradient flows through ℓ alone: the weights ψ and γ̃ and the target q are constants. It is zero if each pair outranks all pairs of lower q by Margin.
//
// The fast forms take differences of sums of 1, p and p² and divide them by Margin², so that errors grow as the margin shrinks: at the least margin the
// float64 gradient is off by up to 4·10⁻⁸ of its largest entry, and a smaller margin means nothing between scores in [0, 1]. At the largest margin all pairs
// are within it and all weights agree to four digits; far beyond it, squares overflow.
type CoTAP struct {
	Threshold float64 `json:"tau1" range:"[-1e4,1]"`   // Pairs with q ≤ Threshold have no weight.
	Margin    float64 `json:"tau2" range:"[1e-4,1e4]"` // By how much a pair should outrank pairs of lower q.
}

// DefaultCoTAP has the paper's hyperparameters ("Optimization strategy").
func DefaultCoTAP() CoTAP { return CoTAP{Threshold: -0.2, Margin: 0.5} }

// bruteForceUpTo is the largest number of pairs for which comparing all of them is cheaper than sorting.
const bruteForceUpTo = 256

// Loss computes the loss exactly over all pairs, as a scalar of p's dtype: the mean over image pairs.
//
// p and q are [B, N], or [N] for one image pair, and hold the scores of the N patch pairs of each of B image pairs, in one dtype. Differentiable in p
// as [CoTAP] says. Sums are kept in float64, sums over few pairs in the dtype of the scores. If a score is NaN or outside [0, 1], the loss and the
// whole gradient are NaN. XLA treats denormal scores as 0.
//
// Time and memory are O(N log N), see package pairsum; few pairs are compared directly.
func (c CoTAP) Loss(p, q *Node) *Node {
	if p.Shape().Dimensions[p.Rank()-1] <= bruteForceUpTo {
		return c.BruteForce(p, q)
	}
	return c.loss(p, q, pairsum.Tree)
}

// BruteForce is [CoTAP.Loss] by comparing each pair with every other, in O(N²) time and in the dtype of the scores. The fast form is tested against it.
func (c CoTAP) BruteForce(p, q *Node) *Node { return c.loss(p, q, pairsum.BruteForce) }

// loss is the loss with the sums of one algorithm. newSums takes scores of shape [B, N] that are all in [0, 1].
func (c CoTAP) loss(p, q *Node, newSums func(p, q *Node, margin float64) pairsum.Sums) *Node {
	settings.Require(c)
	g, dtype, shape := p.Graph(), p.DType(), p.Shape()
	q.AssertDims(shape.Dimensions...)
	fixed, q := StopGradient(p), StopGradient(q)
	n := shape.Dimensions[shape.Rank()-1]
	pairs := shape.Size()
	good := And(inUnit(fixed), inUnit(q))
	nanIfBad := Where(LogicalAll(good), Scalar(g, dtype, 1.0), Scalar(g, dtype, math.NaN()))
	// The comparison with zero removes NaN and negative zeros, which would sort apart.
	clean := func(x *Node) *Node {
		return Reshape(Where(And(good, GreaterThan(x, ScalarZero(g, dtype))), x, ZerosLike(x)), pairs/n, n)
	}

	sums := newSums(clean(fixed), clean(q), c.Margin)
	huber, same, slope := sums.Forward()
	target, valid := sums.Target()
	gamma := Where(valid, MaxScalar(AddScalar(target, -c.Threshold), 0.0), ZerosLike(target))
	total := Add(huber, same)
	value := DivScalar(ReduceAllSum(Mul(gamma, Div(huber, total))), float64(pairs))
	value = Mul(nanIfBad, ConvertDType(value, dtype))

	// The sum below is zero; it carries the gradient.
	carrier := IdentityWithCustomGradient(p, func(_, adjoint *Node) *Node {
		weight := Div(Mul(gamma, same), Square(total))
		gradient := Sub(sums.Pull(weight), Mul(weight, slope))
		gradient = MulScalar(gradient, 2/(c.Margin*c.Margin*float64(pairs)))
		gradient = Mul(nanIfBad, Reshape(ConvertDType(sums.Restore(gradient), dtype), shape.Dimensions...))
		return Mul(adjoint, gradient)
	})
	return Add(StopGradient(value), ReduceAllSum(Sub(carrier, fixed)))
}

// inUnit marks the scores in [0, 1].
func inUnit(x *Node) *Node {
	g := x.Graph()
	return And(GreaterOrEqual(x, ScalarZero(g, x.DType())), LessOrEqual(x, ScalarOne(g, x.DType())))
}

// Evaluate computes the loss of n patch pairs and its gradient in p without a device, exactly over all pairs, in O(n log n) time and in float64. p
// and q hold one score in [0, 1] per pair. It is an error if a score is NaN or out of range, if lengths differ, if there are no pairs, or if a
// hyperparameter is out of range.
//
// A pair is a negative of the pairs of higher q; it gets a gradient from those whose p is lower, or higher by less than Margin. With both orders
// reversed, this is the sum over pairs of lower q that the loss is made of.
func (c CoTAP) Evaluate(p, q []float64) (loss float64, gradient []float64, err error) {
	defer try.Handle(&err)
	try.E(cmp.Or(settings.Check(c), checkScores(p, q)))
	n, square := len(p), c.Margin*c.Margin
	byP := pairsum.Descending(p)
	pairs, ranks := pairsum.Pairs(byP, pairsum.Descending(q))
	sums := pairsum.Lower(pairs, ranks, c.Margin)
	targets := lo.Map(byP, func(pair pairsum.Ranked, _ int) float64 { return q[pair.Index] }) // Gathered here, since the loop below would wait for each read.
	pairsum.TieGroups(byP, func(begin, end int) {
		for at := begin; at < end; at++ {
			gamma, same := max(0, targets[at]-c.Threshold), float64(end)-sums[at].Above // γ̃ and 1/ψ
			huber := max(0, sums[at].Huber) / square
			loss += gamma * huber / (huber + same)
			weight := gamma * same / ((huber + same) * (huber + same)) // γ̃ ψ g'(ψ Σ ℓ)
			sums[at].Slope *= weight
			pairs[at] = pairsum.Pair{P: -pairs[at].P, Weight: weight, Rank: ranks - 1 - pairs[at].Rank}
		}
	})

	slices.Reverse(pairs)
	pulls := pairsum.Lower(pairs, ranks, c.Margin)
	gradient = make([]float64, n)
	for at, pair := range byP {
		gradient[pair.Index] = 2 / (square * float64(n)) * (pulls[n-1-at].Slope - sums[at].Slope)
	}
	return loss / float64(n), gradient, nil
}

// CoTAPDefinition is the continuous-target AP loss by its definition (eq. def_ctap): the mean over pairs k of weight(q_k) times the AP loss at
// threshold q_k. It takes O(n²) time for n pairs and serves for comparison.
//
// p and q hold one score in [0, 1] per patch pair; weight, the paper's γ, is any function of a target score. It is an error if a score is out of
// range or if lengths differ.
func CoTAPDefinition(p, q []float64, weight func(float64) float64) (value float64, err error) {
	defer try.Handle(&err)
	try.E(checkScores(p, q))
	byP, byQ, total := pairsum.Descending(p), pairsum.Descending(q), 0.0
	pairsum.TieGroups(byQ, func(begin, end int) {
		threshold := byQ[begin].Score
		loss, _ := apOf(byP, q, threshold)
		total += float64(end-begin) * weight(threshold) * loss
	})
	return total / float64(len(p)), nil
}

// CoTAPBound is the upper bound of [CoTAPDefinition] that Proposition 1 gives for weight ≥ 0: the mean over pairs i of γ̃_i g(ψ_i Σ_{q_j < q_i} 1[p_i ≤ p_j]),
// where 1/ψ_i counts the pairs with q_j ≥ q_i and p_j ≥ p_i, and γ̃_i sums weight(q_k)/r_k over q_k ≤ q_i with the ranks r_k. It takes O(n log n) time.
// Arguments and errors are as for [CoTAPDefinition].
func CoTAPBound(p, q []float64, weight func(float64) float64) (bound float64, err error) {
	defer try.Handle(&err)
	try.E(checkScores(p, q))
	byP, byQ := pairsum.Descending(p), pairsum.Descending(q)
	pairs, ranks := pairsum.Pairs(byP, byQ)
	gammas, gamma := make([]float64, len(q)), 0.0
	slices.Reverse(byQ)
	pairsum.TieGroups(byQ, func(begin, end int) {
		gamma += float64(end-begin) * weight(byQ[begin].Score) / float64(len(q)-begin)
		for _, pair := range byQ[begin:end] {
			gammas[pair.Index] = gamma
		}
	})

	lower, total := pairsum.Lower(pairs, ranks, 1), 0.0
	pairsum.TieGroups(byP, func(begin, end int) {
		for at := begin; at < end; at++ {
			// g(ψx) = x/(x + 1/ψ), and x + 1/ψ counts all pairs with p_j ≥ p_i.
			total += gammas[byP[at].Index] * lower[at].Above / float64(end)
		}
	})
	return total / float64(len(p)), nil
}
