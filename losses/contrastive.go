package losses

import (
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/samber/lo"
)

// NTXent is SimCLR's normalised temperature-scaled cross-entropy (Chen et al. 2020, eq. 1).
//
// z1 and z2, [B, D], are the projections of two views of the same B images, of any norm. Each of the 2B projections must identify its other view
// among the 2B − 1 others by cosine similarity over temperature (> 0). The loss is at least 0, and ln(2B − 1) if all projections coincide.
// Differentiable in both.
func NTXent(z1, z2 *Node, temperature float64) *Node {
	g := z1.Graph()
	z2.AssertDims(z1.Shape().Dimensions...)
	batch := z1.Shape().Dimensions[0]
	n := 2 * batch

	z := Unit(Concatenate([]*Node{z1, z2}, 0))
	logits := MatMul(z, Transpose(z, 0, 1))

	square := shapes.Make(logits.DType(), n, n)
	row, column := Iota(g, square, 0), Iota(g, square, 1)
	self := Equal(row, column)
	logits = Where(self, AddScalar(MulScalar(logits, 0), -1e9), logits)
	other := Equal(Abs(Sub(row, column)), Scalar(g, logits.DType(), float64(batch)))
	return Alignment(logits, ConvertDType(other, logits.DType()), temperature)
}

// InfoNCE is MoCo's contrastive loss of queries with keys and a queue of earlier keys (He et al. 2020, eq. 1).
//
// queries and keys, [B, D], come from two views of the same images; queue, [K, D], holds keys of other images. All are scaled to length 1 here. Each
// query must identify its key among 1 + K candidates by cosine similarity over temperature (> 0). Differentiable in queries only: keys and queue are
// constants, as MoCo's key encoder takes no gradient.
func InfoNCE(queries, keys, queue *Node, temperature float64) *Node {
	keys.AssertDims(queries.Shape().Dimensions...)
	queries = Unit(queries)
	keys, queue = StopGradient(Unit(keys)), StopGradient(Unit(queue))

	positives := ReduceAndKeep(Mul(queries, keys), ReduceSum, -1)
	others := MatMul(queries, Transpose(queue, 0, 1))
	logits := Concatenate([]*Node{positives, others}, -1)
	first := Equal(Iota(logits.Graph(), shapes.Make(logits.DType(), logits.Shape().Dimensions...), 1), ScalarZero(logits.Graph(), logits.DType()))
	return Alignment(logits, ConvertDType(first, logits.DType()), temperature)
}

// barlowVarianceFloor keeps the standardisation finite for a feature that is constant over the batch. It is BatchNorm's epsilon, as in the authors'
// implementation.
const barlowVarianceFloor = 1e-5

// BarlowTwins pulls the cross-correlation matrix of two views' features towards the identity (Zbontar et al. 2021, eq. 1–2):
//
//	Σ_i (1 − C_ii)² + λ Σ_i Σ_{j≠i} C_ij²
//
// z1 and z2, [B, D] with B ≥ 2, are standardised over the batch (biased variance); λ = offDiagonal ≥ 0, the authors' 0.005. It is a sum over the D²
// entries, not a mean. Differentiable in both.
func BarlowTwins(z1, z2 *Node, offDiagonal float64) *Node {
	g := z1.Graph()
	z2.AssertDims(z1.Shape().Dimensions...)
	batch, dim := z1.Shape().Dimensions[0], z1.Shape().Dimensions[1]

	correlation := MatMul(Transpose(standardize(z1), 0, 1), standardize(z2))
	correlation = DivScalar(correlation, float64(batch))

	identity := ConvertDType(Diagonal(g, dim), z1.DType())
	weight := Add(identity, MulScalar(OneMinus(identity), offDiagonal))
	return ReduceAllSum(Mul(weight, Square(Sub(correlation, identity))))
}

// standardize gives each column of x, [B, D], mean 0 and variance 1 over the batch.
func standardize(x *Node) *Node {
	x = Sub(x, ReduceAndKeep(x, ReduceMean, 0))
	variance := ReduceAndKeep(Square(x), ReduceMean, 0)
	return Div(x, Sqrt(AddScalar(variance, barlowVarianceFloor)))
}

// MugsContrast is the loss of Mugs' instance and local-group discrimination (Zhou et al. 2022, "Mugs", eq. 2 and 4): each view of the student identifies
// the teacher's other views of its image among the features of other images.
//
// student holds predictions of V views of B images, [V, B, D]. Its first G views are the teacher's, whose features are targets, [G, B, D]; queue, [K, D],
// holds earlier ones, see [Enqueue]. All have Euclidean norm 1. The loss of a pair of views is the cross-entropy of finding the target among 1 + K
// candidates by the product over temperature (> 0), Mugs' 0.2. The mean over the pairs with one of the student's first G views, and the mean over those
// with one of its other views, count half each; if there are no pairs of one kind, the others count fully. Differentiable in student only.
func MugsContrast(student, targets, queue *Node, temperature float64) *Node {
	views, batch, dim := student.Shape().Dim(0), student.Shape().Dim(1), student.Shape().Dim(2)
	globals := targets.Shape().Dim(0)
	targets.AssertDims(globals, batch, dim)
	queue.AssertDims(-1, dim)
	targets, queue = StopGradient(targets), StopGradient(queue)

	positives := DivScalar(Einsum("vbd,gbd->gvb", student, targets), temperature)
	others := DivScalar(MatMul(Reshape(student, views*batch, dim), Transpose(queue, 0, 1)), temperature)
	// log(exp(positive) + exp(sum)) − positive.
	margin := Sub(Reshape(logSum(others, -1), 1, views, batch), positives)
	entropies := Add(MulScalar(Add(margin, Abs(margin)), 0.5), Log1P(Exp(Neg(Abs(margin)))))
	return weightGranules(ReduceMean(entropies, 2))
}

// MugsGroup is the loss of Mugs' group discrimination (eq. 5): the [DINO] loss with the weights of pairs of [MugsContrast]. targets are [DINOTargets].
func MugsGroup(student, targets *Node, temperature float64) *Node {
	return weightGranules(viewPairs(student, targets, temperature))
}

// Enqueue is the next value of a queue, [K, D]: the oldest rows, which come first, make room for rows, [.., D], which follow in their order. There are at
// most K of them. No gradient passes.
func Enqueue(queue, rows *Node) *Node {
	rows = StopGradient(Reshape(rows, -1, rows.Shape().Dim(-1)))
	return Concatenate([]*Node{Slice(StopGradient(queue), AxisRange(rows.Shape().Dim(0))), rows}, 0)
}

// weightGranules is the sum of pairs of different views, [G, V], with the weights of [MugsContrast].
func weightGranules(pairs *Node) *Node {
	globals, views := pairs.Shape().Dim(0), pairs.Shape().Dim(1)
	ofGlobals, ofLocals := globals*(globals-1), globals*(views-globals)
	half := lo.Ternary(ofGlobals == 0 || ofLocals == 0, 1, 0.5)
	return weightPairs(pairs, func(teacher, student int) float64 {
		switch {
		case teacher == student:
			return 0
		case student < globals:
			return half / float64(ofGlobals)
		}
		return half / float64(ofLocals)
	})
}
