package pairsum

import . "github.com/gomlx/gomlx/core/graph"

// Sums are sums over pairs of pairs. The entries are in an order that the algorithm chooses, and all are float64.
type Sums interface {
	// Target returns q; valid marks entries that are not padding.
	Target() (q, valid *Node)
	// Forward returns Σ_{q_j < q_i} ℓ(p_i − p_j), 1/ψ_i, and the slope −τ²/2 Σ_{q_j < q_i} ℓ'(p_i − p_j).
	Forward() (huber, same, slope *Node)
	// Pull returns −τ²/2 Σ_{q_k > q_i} weight_k ℓ'(p_k − p_i).
	Pull(weight *Node) *Node
	// Restore puts entries into the order and shape of the inputs.
	Restore(entries *Node) *Node
}
