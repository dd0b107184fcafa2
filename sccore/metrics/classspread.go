package metrics

import (
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/semcon/semcon/losses"
)

// ClassSpread splits the variance of labelled, unit-length features into two parts that add up to the whole.
type ClassSpread struct {
	Within  float64 `json:"within"`  // Mean squared distance between a feature and its class mean, in [0, 1].
	Between float64 `json:"between"` // Mean squared distance between a feature's class mean and the overall mean, in [0, 1].
}

// Share is Between's share of the whole, in [0, 1]: near 0 if classes look alike, 1 if the features of a class are equal, and 0 for features that do
// not vary.
func (s ClassSpread) Share() float64 {
	if s.Between <= 0 {
		return 0
	}
	return s.Between / (s.Within + s.Between)
}

// SpreadOfClasses is the variance within and between classes, [2], of features, [N, D], scaled to length 1. labels, [N], are in [0, 256); features
// with label 0 are left out.
func SpreadOfClasses(features, labels *Node) *Node {
	unit := losses.Unit(StopGradient(features))
	of := Slice(OneHot(labels, 256, unit.DType()), AxisRange(), AxisRange(1)) // Class membership; a row of zeros without a label.
	labelled := ReduceAndKeep(of, ReduceSum, 1)
	unit = Mul(unit, labelled)
	all := MaxScalar(ReduceAllSum(labelled), 1)
	means := Div(MatMul(Transpose(of, 0, 1), unit), MaxScalar(Reshape(ReduceSum(of, 0), -1, 1), 1))
	classMeans, centre := MatMul(of, means), Div(ReduceAndKeep(unit, ReduceSum, 0), all)
	within := ReduceAllSum(Square(Sub(unit, classMeans)))
	between := ReduceAllSum(Square(Sub(classMeans, Mul(labelled, centre))))
	return Div(Stack([]*Node{within, between}, 0), all)
}
