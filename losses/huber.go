package losses

import (
	. "github.com/gomlx/gomlx/core/graph"
)

// OneSidedHuber is the surrogate of the indicator [x ≤ 0] at each entry of x (eq. sur_loss as erratum E1 corrects it): 1 − 2x/margin below
// 0, (1 − x/margin)² from 0 to margin, and 0 beyond. It is at least the indicator, and has a continuous slope. margin is positive.
// Differentiable.
func OneSidedHuber(x *Node, margin float64) *Node {
	// ([margin − x]₊² − [−x]₊²) / margin², whose two parts have a gradient everywhere.
	wide := MaxScalar(OneMinus(DivScalar(x, margin)), 0.0)
	narrow := MaxScalar(DivScalar(Neg(x), margin), 0.0)
	return Sub(Square(wide), Square(narrow))
}
