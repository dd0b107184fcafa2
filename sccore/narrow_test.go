package sccore

import "github.com/gomlx/compute"

// NewNarrowTrainer is [NewTrainer] with an encoder of a few thousand weights, whose checkpoints are small enough for golden files.
func NewNarrowTrainer(b compute.Backend, data Data, config Config) (*Trainer, error) {
	t, err := newTrainer(data, config)
	if err != nil {
		return nil, err
	}
	t.step.vit.Dim, t.step.vit.Depth, t.step.vit.NumHeads = 4, 1, 2
	return t, t.compile(b)
}
