package losses

import "github.com/gomlx/gomlx/core/graph"

// MergeTree is [CoTAP.Loss] by the merge tree, however few the pairs are.
func (c CoTAP) MergeTree(p, q *graph.Node) *graph.Node { return c.loss(p, q, newPairTree) }
