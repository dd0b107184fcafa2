package losses

import (
	. "github.com/gomlx/gomlx/core/graph"
)

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
	highest := StopGradient(ReduceAndKeep(others, ReduceMax, -1))
	sum := Add(highest, Log(ReduceAndKeep(Exp(Sub(others, highest)), ReduceSum, -1)))
	// log(exp(positive) + exp(sum)) − positive.
	margin := Sub(Reshape(sum, 1, views, batch), positives)
	entropies := Add(MulScalar(Add(margin, Abs(margin)), 0.5), Log1P(Exp(Neg(Abs(margin)))))
	return weightGranules(ReduceMean(entropies, 2))
}

// MugsGroup is the loss of Mugs' group discrimination (eq. 5): that of [DINO], with the weights of pairs of [MugsContrast]. targets are [DINOTargets].
func MugsGroup(student, targets *Node, temperature float64) *Node {
	return weightGranules(viewPairs(student, targets, temperature))
}

// Enqueue is the next value of a queue, [K, D]: the oldest rows, which come first, make place for rows, [.., D], which follow in their order. There are
// at most K of them. No gradient passes.
func Enqueue(queue, rows *Node) *Node {
	rows = StopGradient(Reshape(rows, -1, rows.Shape().Dim(-1)))
	return Concatenate([]*Node{Slice(StopGradient(queue), AxisRange(rows.Shape().Dim(0))), rows}, 0)
}

// weightGranules is the sum of pairs of different views, [G, V], with the weights of [MugsContrast].
func weightGranules(pairs *Node) *Node {
	globals, views := pairs.Shape().Dim(0), pairs.Shape().Dim(1)
	ofGlobals, ofLocals := globals*(globals-1), globals*(views-globals)
	half := 0.5
	if ofGlobals == 0 || ofLocals == 0 {
		half = 1
	}
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
