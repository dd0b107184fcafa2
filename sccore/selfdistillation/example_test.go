package selfdistillation_test

import (
	"context"
	"fmt"
	"math"

	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/heads"
	"github.com/semcon/semcon/sccore/selfdistillation"
)

func ExampleTrainer() {
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		panic(err)
	}
	defer b.Finalize()
	config := selfdistillation.Default(selfdistillation.DINO) // The authors' settings, made small.
	config.Encoder = "vit-tiny"
	config.Head = heads.DINOHead{HiddenDim: 16, BottleneckDim: 8, OutDim: 12}
	config.Views.GlobalCropSize, config.Views.LocalCropSize, config.Views.Locals, config.ImageSize = 24, 16, 1, 32
	config.Batch, config.Steps, config.EpochSteps, config.WarmupSteps, config.TemperatureWarmupEpochs = 4, 2, 2, 1, 1
	trainer, err := selfdistillation.NewTrainer(b, sccore.Data{Objects: synthetic.Objects(6, 32, 1), Scenes: synthetic.Scenes(6, 32, 2)}, config)
	if err != nil {
		panic(err)
	}
	defer trainer.Close()
	if err := trainer.Begin(1); err != nil {
		panic(err)
	}
	for trainer.Done() < config.Steps {
		metrics, err := trainer.Step(context.Background())
		if err != nil {
			panic(err)
		}
		fmt.Println(!math.IsNaN(metrics.Total))
	}
	// Output:
	// true
	// true
}
