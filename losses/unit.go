package losses

import (
	. "github.com/gomlx/gomlx/core/graph"
)

// unitFloor is the least norm that [Unit] divides by, torch.nn.functional.normalize's epsilon.
const unitFloor = 1e-12

// Unit scales each row of x, [N, D], to Euclidean length 1. A row of zeros stays zero and takes no gradient.
func Unit(x *Node) *Node {
	x.AssertRank(2)
	// The floor is under the root, so that the gradient of a zero row is that of a constant and not 0·∞.
	squares := ReduceAndKeep(Square(x), ReduceSum, -1)
	return Div(x, Sqrt(MaxScalar(squares, unitFloor*unitFloor)))
}
