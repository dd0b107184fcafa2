package losses

import (
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/samber/lo"
)

// DINO is the cross-entropy of the student's distributions with the teacher's, over all pairs of views but the same (Caron et al. 2021, eq. 3).
//
// student holds logits of V views of B images, [V, B, K]. Its first G views are the teacher's, whose distributions are targets, [G, B, K]: [DINOTargets]
// as DINO makes them, or [SinkhornKnopp] as DINOv2 does. The loss is the mean over the G·(V − 1) pairs and the B images of −Σ_k targets_k log
// softmax(student/temperature)_k. temperature is the student's, DINO's 0.1. V ≥ 2. Differentiable in student only.
func DINO(student, targets *Node, temperature float64) *Node {
	views, globals := student.Shape().Dim(0), targets.Shape().Dim(0)
	pairs := float64(globals * (views - 1))
	return weightPairs(viewPairs(student, targets, temperature), func(teacher, student int) float64 {
		return lo.Ternary(teacher == student, 0, 1/pairs)
	})
}

// DINOTargets are the teacher's distributions: softmax((teacher − center)/temperature) on the last axis. Centring alone would make them uniform,
// sharpening by a low temperature alone would let one entry win; together they keep the student from collapse.
//
// teacher holds logits, [.., K]; center is [K], see [DINOCenter]. temperature is a positive scalar, DINO's 0.04 to 0.07, of which
// [TeacherTemperature] is the schedule. No gradient passes.
func DINOTargets(teacher, center, temperature *Node) *Node {
	teacher, center = StopGradient(teacher), StopGradient(center)
	return Softmax(Div(Sub(teacher, ExpandLeftToRank(center, teacher.Rank())), ConvertDType(temperature, teacher.DType())), -1)
}

// DINOCenter is the next value of the centre, momentum·center + (1 − momentum)·mean of teacher, [K]. It starts at 0. A step uses the centre of the
// step before for its targets (Caron et al. 2021, eq. 4).
//
// teacher holds logits, [.., K], with a mean over all axes but the last: views and images, and patches for iBOT's second centre. momentum is in
// [0, 1), DINO's 0.9. No gradient passes.
func DINOCenter(center, teacher *Node, momentum float64) *Node {
	width := teacher.Shape().Dim(-1)
	mean := ReduceMean(Reshape(StopGradient(teacher), -1, width), 0)
	return Add(MulScalar(StopGradient(center), momentum), MulScalar(mean, 1-momentum))
}

// TeacherTemperature is the teacher's temperature in an epoch, counted from 0: from start in epoch 0 linearly to final in epoch warmup − 1, and then
// final. Before epoch 0, as where iBOT's masks start late, it is start. With warmup 0 it is final, with warmup 1 it is final after epoch 0.
func TeacherTemperature(epoch, warmup int, start, final float64) float64 {
	switch {
	case epoch >= warmup:
		return final
	case epoch <= 0:
		return start
	default:
		return start + (final-start)*float64(epoch)/float64(warmup-1)
	}
}

// viewPairs are the cross-entropies of each of the teacher's views with each of the student's, means over the images: [G, V].
func viewPairs(student, targets *Node, temperature float64) *Node {
	views, batch, width := student.Shape().Dim(0), student.Shape().Dim(1), student.Shape().Dim(2)
	globals := targets.Shape().Dim(0)
	targets.AssertDims(globals, batch, width)
	log := Reshape(LogSoftmax(DivScalar(student, temperature)), views, batch*width)
	pairs := MatMul(Reshape(StopGradient(targets), globals, batch*width), Transpose(log, 0, 1))
	return DivScalar(Neg(pairs), float64(batch))
}

// weightPairs is the sum of pairs of views, [G, V], each times its weight.
func weightPairs(pairs *Node, weight func(teacher, student int) float64) *Node {
	weights := lo.Times(pairs.Shape().Dim(0), func(teacher int) []float64 {
		return lo.Times(pairs.Shape().Dim(1), func(student int) float64 { return weight(teacher, student) })
	})
	return ReduceAllSum(Mul(pairs, ConstAsDType(pairs.Graph(), pairs.DType(), weights)))
}

// IBOTPatches is the masked patch loss of iBOT (Zhou et al. 2022, eq. 2): the student guesses the teacher's distribution of each patch that is hidden from it.
//
// student holds logits of the patches of G masked views of B images, [G, B, N, K]; targets are the teacher's distributions of the same views without
// masks, of the same shape: [DINOTargets] with a centre of their own, which [DINOCenter] moves, or [SinkhornKnopp] of the masked patches, as in DINOv2.
// masks, [G, B, N] of bool, marks the hidden patches, as views.BlockMask draws them. The loss is the mean over the views and images of the mean over a
// view's masked patches of −Σ_k targets_k log softmax(student/temperature)_k. A view without masked patches counts as 0. temperature is the student's,
// iBOT's 0.1. Differentiable in student only.
//
// iBOT's loss of the [CLS] tokens is [DINO], where the student's first G views are masked too; the two are added with weights of 1.
func IBOTPatches(student, targets, masks *Node, temperature float64) *Node {
	targets.AssertDims(student.Shape().Dimensions...)
	masks.AssertDims(student.Shape().Dimensions[:3]...)
	entropies := Neg(ReduceSum(Mul(StopGradient(targets), LogSoftmax(DivScalar(student, temperature))), -1))
	hidden := ConvertDType(masks, student.DType())
	return ReduceAllMean(Div(ReduceSum(Mul(entropies, hidden), -1), MaxScalar(ReduceSum(hidden, -1), 1)))
}

// outside stands for the logarithm of 0, where −∞ would give NaN.
const outside = -1e30

// SinkhornKnopp turns a teacher's scores into targets: distributions that are sharp one by one and uniform on average (Cuturi 2013; SwAV, DINOv2 and
// DINOv3 use it). An iteration scales columns to equal sums, then rows, starting from exp(scores).
//
// scores are [N, D], already divided by the temperature. mask, [N] of bool, marks the rows that share the columns, as the masked patches do in DINOv2's form of
// iBOT; nil marks all. iterations is at least 1; 3 is usual. The result, [N, D], has rows that sum to 1; rows outside the mask mean nothing. No gradient
// passes.
//
// The computation is in the log domain, so that no score overflows and no row or column vanishes.
func SinkhornKnopp(scores, mask *Node, iterations int) *Node {
	scores.AssertRank(2)
	scores = StopGradient(scores)
	rows := ZerosLike(Slice(scores, AxisRange(), AxisElem(0)))
	var columns *Node
	for range iterations {
		shared := Sub(scores, rows)
		if mask != nil {
			shared = Where(mask, shared, AddScalar(ZerosLike(shared), outside))
		}
		columns = logSum(shared, 0)
		rows = logSum(Sub(scores, columns), 1)
	}
	return Exp(Sub(Sub(scores, columns), rows))
}

// logSum is the log-sum-exp along an axis, which is kept with dimension 1.
func logSum(x *Node, axis int) *Node {
	highest := StopGradient(ReduceAndKeep(x, ReduceMax, axis))
	return Add(highest, Log(ReduceAndKeep(Exp(Sub(x, highest)), ReduceSum, axis)))
}
