package losses

import (
	. "github.com/gomlx/gomlx/core/graph"
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
		if teacher == student {
			return 0
		}
		return 1 / pairs
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
	pairs.AssertDims(globals, views)
	return DivScalar(Neg(pairs), float64(batch))
}

// weightPairs is the sum of pairs of views, [G, V], each times its weight.
func weightPairs(pairs *Node, weight func(teacher, student int) float64) *Node {
	weights := make([][]float64, pairs.Shape().Dim(0))
	for teacher := range weights {
		weights[teacher] = make([]float64, pairs.Shape().Dim(1))
		for student := range weights[teacher] {
			weights[teacher][student] = weight(teacher, student)
		}
	}
	return ReduceAllSum(Mul(pairs, ConstAsDType(pairs.Graph(), pairs.DType(), weights)))
}
