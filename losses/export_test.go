package losses

import (
	"github.com/gomlx/gomlx/core/graph"
	"github.com/semcon/semcon/losses/internal/pairsum"
)

// SoftRanks and Arctan are parts of [NeCo].
var (
	SoftRanks = softRanks
	Arctan    = arctan
)

// Tree is [CoTAP.Loss] by the tree, even for few pairs.
func (c CoTAP) Tree(p, q *graph.Node) *graph.Node { return c.loss(p, q, pairsum.Tree) }

// DeepTree is [CoTAP.Loss] by a tree of small nodes, so that few pairs make many levels.
func (c CoTAP) DeepTree(p, q *graph.Node) *graph.Node {
	return c.loss(p, q, func(p, q *graph.Node, margin float64) pairsum.Sums {
		return pairsum.TreeOf(pairsum.Shape{Leaf: 8, Radix: 8}, p, q, margin)
	})
}

// GPUTree is [CoTAP.DeepTree] in the form for GPUs, which every backend can compute.
func (c CoTAP) GPUTree(p, q *graph.Node) *graph.Node {
	return c.loss(p, q, func(p, q *graph.Node, margin float64) pairsum.Sums {
		return pairsum.TreeOf(pairsum.Shape{Leaf: 8, Radix: 8, Threads: true}, p, q, margin)
	})
}
