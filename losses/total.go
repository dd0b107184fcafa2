package losses

import (
	"errors"

	. "github.com/gomlx/gomlx/core/graph"
)

// Terms are the losses of the total loss; a loss that is not used is nil.
type Terms struct {
	PatchAlignment, ImageAlignment         *Node // [Alignment]
	PatchConcentration, ImageConcentration *Node // [CoTAP.Loss], [Alignment] with a neighbour
	Prototypes                             *Node // [PrototypeEntropy]
}

// Lambdas are the weights of the terms: λ1, λ̄1, λ2, λ̄2 of the total loss and λ3, which it leaves out (erratum E3).
type Lambdas struct {
	PatchAlignment     float64 `json:"patch_alignment"`     // Weight λ1 of patch alignment.
	ImageAlignment     float64 `json:"image_alignment"`     // Weight λ̄1 of image alignment.
	PatchConcentration float64 `json:"patch_concentration"` // Weight λ2 of patch concentration.
	ImageConcentration float64 `json:"image_concentration"` // Weight λ̄2 of alignment with a neighbour.
	Prototypes         float64 `json:"prototypes"`          // Weight λ3 of the entropy of the filter's prototypes.
}

// DefaultLambdas are all 1 ("Optimization strategy").
func DefaultLambdas() Lambdas { return Lambdas{1, 1, 1, 1, 1} }

// Total is the loss of a training step: the sum of the terms, each times its weight. A term of weight 0 is left out of the graph. It panics if no
// term is left.
func Total(terms Terms, weights Lambdas) *Node {
	var total *Node
	for _, term := range []struct {
		loss   *Node
		weight float64
	}{
		{terms.PatchAlignment, weights.PatchAlignment}, {terms.ImageAlignment, weights.ImageAlignment},
		{terms.PatchConcentration, weights.PatchConcentration}, {terms.ImageConcentration, weights.ImageConcentration},
		{terms.Prototypes, weights.Prototypes},
	} {
		if term.loss == nil || term.weight == 0 {
			continue
		}
		weighted := MulScalar(term.loss, term.weight)
		if total == nil {
			total = weighted
		} else {
			total = Add(total, weighted)
		}
	}
	if total == nil {
		panic(errors.New("total loss: no terms"))
	}
	return total
}
