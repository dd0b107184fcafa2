package losses

import "github.com/gomlx/gomlx/core/graph"

// Tree is [CoTAP.Loss] by the tree, however few the pairs are.
func (c CoTAP) Tree(p, q *graph.Node) *graph.Node { return c.loss(p, q, newPairTree) }

// DeepTree is [CoTAP.Loss] by a tree of small nodes, so that few pairs make many levels.
func (c CoTAP) DeepTree(p, q *graph.Node) *graph.Node {
	return c.loss(p, q, func(p, q *graph.Node, margin float64) pairSums {
		return newTreeOf(treeShape{leaf: 8, radix: 8}, p, q, margin)
	})
}

// EvaluateInDigits is [CoTAP.Evaluate] with digits of two bits, so that few pairs need many.
func (c CoTAP) EvaluateInDigits(p, q []float64) (loss float64, gradient []float64, err error) {
	return c.evaluate(p, q, 2)
}
