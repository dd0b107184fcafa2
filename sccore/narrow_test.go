package sccore

import (
	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/ml/model"
)

// NewNarrowTrainer is [NewTrainer] with an encoder of a few thousand weights, whose checkpoints are small enough to be kept as golden files.
func NewNarrowTrainer(b compute.Backend, data Data, config Config) (*Trainer, error) {
	t := &Trainer{config: config, data: data, backend: b, store: model.NewStore()}
	t.step = newStep(config, data.Objects != nil, data.Scenes != nil, data.Labels != nil)
	t.step.vit.Dim, t.step.vit.Depth, t.step.vit.Heads = 4, 1, 2
	return t, t.compile()
}
