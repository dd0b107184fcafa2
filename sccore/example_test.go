package sccore_test

import (
	"context"
	"fmt"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/heads"
)

func ExampleSinkhorn_Targets() {
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		fmt.Println(err)
		return
	}
	// Both rows prefer the first entry. The second row prefers it less, and gets the other entry.
	scores := [][]float64{{0.9, 0.1}, {0.6, 0.5}}
	q := graph.MustExecOnce(b, sccore.DefaultSinkhorn().Targets, scores)
	fmt.Printf("%.3f\n", q.Value())
	// Output:
	// [[1.000 0.000] [0.002 0.998]]
}

func ExampleTrainer() {
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		panic(err)
	}
	// The paper's configuration, scaled down: line 2 of the ablation, patch alignment alone, needs scenes alone.
	config := sccore.Ablations[1].Config(sccore.Default())
	config.Encoder, config.PatchHead = "vit-tiny", heads.Projector{HiddenDim: 8, OutDim: 4}
	config.Views.GlobalCropSize, config.Views.Locals, config.ImageSize = 16, 0, 24
	config.Batch, config.Steps = 2, 3
	trainer, err := sccore.NewTrainer(b, sccore.Data{Scenes: synthetic.Scenes(4, 24, 1)}, config)
	if err != nil {
		panic(err)
	}
	defer trainer.Close()
	if err := trainer.Begin(1); err != nil {
		panic(err)
	}
	for trainer.Done() < trainer.Steps() {
		metrics, err := trainer.Step(context.Background())
		if err != nil {
			panic(err)
		}
		fmt.Println("step", metrics.Step, "has the loss of patch alignment alone:", metrics.Total == metrics.PatchAlignment)
	}
	// Output:
	// step 1 has the loss of patch alignment alone: true
	// step 2 has the loss of patch alignment alone: true
	// step 3 has the loss of patch alignment alone: true
}
