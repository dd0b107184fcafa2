package sccore_test

import (
	"context"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"time"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/heads"
	"github.com/semcon/semcon/sccore/train"
)

// Example trains the method on a folder of images: patch alignment and CoTAP (line 5 of the ablation), with checkpoints, so that the same call goes on after a kill.
func Example() {
	dir, err := os.MkdirTemp("", "photographs")
	must(err)
	defer os.RemoveAll(dir)
	for i := range 4 { // Four photographs: gradients between two colours.
		img := image.NewRGBA(image.Rect(0, 0, 32, 24))
		for p := range 32 * 24 {
			img.Set(p%32, p/32, color.RGBA{uint8(8 * (p % 32)), uint8(60 * i), uint8(10 * (p / 32)), 255})
		}
		file, err := os.Create(filepath.Join(dir, fmt.Sprintf("%d.png", i)))
		must(err)
		must(png.Encode(file, img))
		must(file.Close())
	}
	b, err := backend.OpenConfig(backend.Go)
	must(err)

	photographs, err := datasets.OpenImageFolder(dir)
	must(err)
	config := sccore.Ablations[4].Config(sccore.Default())
	config.Encoder, config.PatchHead = "vit-tiny", heads.Projector{HiddenDim: 16, OutDim: 8} // The paper's are vit-s16 and a head of 8192.
	config.Views.GlobalCropSize, config.Views.Locals, config.ImageSize = 16, 0, 24
	config.Batch, config.Steps = 2, 3
	trainer, err := sccore.NewTrainer(b, sccore.Data{Scenes: photographs}, config)
	must(err)
	defer trainer.Close()

	loop := train.Loop[sccore.StepMetrics]{
		Trainer: trainer, Dir: filepath.Join(dir, "run"), Final: "final.safetensors", Every: time.Minute,
		Start: func() error { return trainer.Begin(1) },
		After: func(step sccore.StepMetrics, _ map[string]float64) error {
			fmt.Println("step", step.Step, "aligns patches:", step.PatchAlignment > 0, "and concentrates them:", step.PatchConcentration > 0)
			return nil
		},
	}
	must(loop.Run(context.Background()))
	must(trainer.SaveEncoder(filepath.Join(dir, "encoder.safetensors"), sccore.Online, nil))
	// Output:
	// step 1 aligns patches: true and concentrates them: true
	// step 2 aligns patches: true and concentrates them: true
	// step 3 aligns patches: true and concentrates them: true
}

// must ends an example with an error.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

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
