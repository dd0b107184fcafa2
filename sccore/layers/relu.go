package layers

import (
	. "github.com/gomlx/gomlx/core/graph" //nolint
)

// ReLU is max(0, x). Its slope at 0 is 0, as in PyTorch. The order of the arguments decides it: GoMLX gives the slope of equal arguments to the first
// one, so that its own activation has slope 1 at 0. Whole channels can be exactly 0 there, behind another ReLU or after padding.
func ReLU(x *Node) *Node { return Max(ScalarZero(x.Graph(), x.DType()), x) }
