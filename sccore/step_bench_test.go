package sccore_test

import (
	"testing"
	"time"

	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/datasets"
)

// BenchmarkStep measures whole steps of training, images and all.
//
//   - toy: vit-tiny on 48² views of 32 images, with every loss.
//   - vit-s16 and without-cotap: the paper's step on two images, 2 global views of 224² and 4 local ones of 96², with and without L_sc, in
//     turn, so that the share of CoTAP is that of one run. Both in images/s.
func BenchmarkStep(b *testing.B) {
	b.Run("toy", func(b *testing.B) {
		config := tiny()
		config.Views.GlobalSize, config.Canvas, config.Batch, config.Prototypes = 48, 64, 32, 16
		config.Views.Locals = 0
		config.ImageHead, config.PatchHead = sccore.Projector{Hidden: 256, Out: 64}, sccore.Projector{Hidden: 256, Out: 64}
		trainer := begun(b, config, 64)
		for b.Loop() {
			if _, err := trainer.Step(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(config.Batch*b.N)/b.Elapsed().Seconds(), "images/s")
	})
	b.Run("vit-s16", func(b *testing.B) {
		config := sccore.Default()
		config.Canvas, config.Batch = 256, 2
		without := config
		without.Lambdas.PatchConcentration = 0
		trainers := []*sccore.Trainer{begun(b, config, 256), begun(b, without, 256)}
		var took [2]time.Duration
		for b.Loop() {
			for i, trainer := range trainers {
				start := time.Now()
				if _, err := trainer.Step(b.Context()); err != nil {
					b.Fatal(err)
				}
				took[i] += time.Since(start)
			}
		}
		b.ReportMetric(float64(config.Batch*b.N)/took[0].Seconds(), "images/s")
		b.ReportMetric(100*(1-took[1].Seconds()/took[0].Seconds()), "%-of-CoTAP")
	})
}

// begun is a trainer that has compiled its step and taken one.
func begun(b *testing.B, config sccore.Config, side int) *sccore.Trainer {
	b.Helper()
	const images = 64
	neighbours := &sccore.Neighbours{K: 1}
	for i := range int32(images) {
		neighbours.Indices = append(neighbours.Indices, (i+1)%images)
	}
	config.Steps = 1_000_000
	data := sccore.Data{Objects: datasets.SyntheticObjects(images, side, 1), Scenes: datasets.SyntheticScenes(images, side, 2), Neighbours: neighbours}
	start := time.Now()
	trainer := newTrainer(b, testbackend.Fastest(b), data, config)
	if err := trainer.Begin(1); err != nil {
		b.Fatal(err)
	}
	if _, err := trainer.Step(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Logf("compiled and begun in %.1f s", time.Since(start).Seconds())
	return trainer
}
