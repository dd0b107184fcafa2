package evaluation

import (
	"context"
	"iter"
	"math/rand/v2"
	"testing"

	"github.com/semcon/semcon/internal/goldenrun"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/heads"
)

// TestCheckpointsOfEarlierVersionsResume resumes a run of each kind of head.
func TestCheckpointsOfEarlierVersionsResume(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{heads.Linear, heads.FCN} {
		t.Run(kind, func(t *testing.T) {
			config := SegmentationConfig{
				Head: heads.Segmentation{Kind: kind, Classes: 3, Width: 4}, Dim: 5, Grid: 2, Batch: 2, Steps: 6, LearningRates: []float64{1e-2, 1e-3}, FinalLearningRate: 1e-4,
			}
			trainer, err := NewSegmentationTrainer(b, config)
			if err != nil {
				t.Fatal(err)
			}
			defer trainer.Close()
			trainer.Crops = func(_ context.Context, step int) iter.Seq2[Patches, error] {
				rng := rand.New(rand.NewPCG(1, uint64(step)))
				features, labels := make([]float32, 2*2*2*5), make([]uint8, 2*16*16)
				for i := range features {
					features[i] = float32(rng.NormFloat64())
				}
				for i := range labels {
					labels[i] = []uint8{0, 1, 2, 255}[rng.IntN(4)]
				}
				return crops(Patches{Features: features, Labels: labels})
			}
			goldenrun.Run{
				Name: "heads-" + kind, Middle: 3, Steps: config.Steps,
				Begin: func() error { return trainer.Begin(7) },
				Step:  func() (any, error) { return trainer.Step(t.Context()) },
				Save:  trainer.Save, Resume: trainer.Resume,
			}.Check(t)
		})
	}
}

// crops yields its arguments. One argument may hold several crops, concatenated.
func crops(all ...Patches) iter.Seq2[Patches, error] {
	return func(yield func(Patches, error) bool) {
		for _, crop := range all {
			if !yield(crop, nil) {
				return
			}
		}
	}
}
