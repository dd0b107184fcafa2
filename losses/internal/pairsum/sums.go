package pairsum

import . "github.com/gomlx/gomlx/core/graph"

// Sums are an algorithm's sums over pairs of pairs. Their entries stand in an order of the algorithm's own, and all are float64.
type Sums interface {
	// Target gives q, and valid tells entries from padding.
	Target() (q, valid *Node)
	// Forward gives Σ_{q_j < q_i} ℓ(p_i − p_j), 1/ψ_i, and the slope −τ²/2 Σ_{q_j < q_i} ℓ'(p_i − p_j).
	Forward() (huber, same, slope *Node)
	// Pull gives −τ²/2 Σ_{q_k > q_i} weight_k ℓ'(p_k − p_i).
	Pull(weight *Node) *Node
	// Restore brings entries into the order and shape of the inputs.
	Restore(entries *Node) *Node
}
