package sccore

import "github.com/gomlx/compute"

// NewNarrowTrainer is [NewTrainer] with an encoder of a few thousand weights, whose checkpoints are small enough for golden files.
func NewNarrowTrainer(b compute.Backend, data Data, config Config) (*Trainer, error) {
	objective, err := NewObjective(data, config)
	if err != nil {
		return nil, err
	}
	objective.step.vit.Dim, objective.step.vit.Depth, objective.step.vit.NumHeads = 4, 1, 2
	return trainerOf(b, objective)
}
