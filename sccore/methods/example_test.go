package methods_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/methods"
	"github.com/semcon/semcon/sccore/views"
)

func ExampleTrainer() {
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		panic(err)
	}
	images := synthetic.Images(16, 32, 1)
	trainer, err := methods.NewTrainer(b, images, methods.Config{
		Method: methods.SimCLR, Encoder: "conv4-w4", Batch: 8, Epochs: 2, LearningRate: 0.1, Momentum: 0.9,
		ProjectorHidden: 12, ProjectorDim: 6, Temperature: 0.5,
	})
	if err != nil {
		panic(err)
	}
	defer trainer.Close()
	if err := trainer.Begin(views.Default(), 1); err != nil {
		panic(err)
	}
	for trainer.Done() < trainer.Steps() {
		if _, err := trainer.Step(context.Background()); err != nil {
			panic(err)
		}
	}
	dir, err := os.MkdirTemp("", "simclr")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	weights := filepath.Join(dir, "weights.safetensors")
	if err := trainer.SaveOnline(weights, nil); err != nil {
		panic(err)
	}

	extractor, err := methods.NewFeatureExtractor(b, "conv4-w4", 32, 2)
	if err != nil {
		panic(err)
	}
	defer extractor.Close()
	if err := extractor.Load(weights); err != nil {
		panic(err)
	}
	features, length, err := extractor.Features(images, views.Default(), 1)
	fmt.Println(trainer.Done(), "steps;", len(features)/length, "views,", length, "features each,", err)
	// Output: 4 steps; 32 views, 16 features each, <nil>
}
