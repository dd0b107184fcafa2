package methods

import (
	"testing"

	"github.com/semcon/semcon/internal/goldenrun"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/views"
)

// TestCheckpointsOfEarlierVersionsResume resumes a run of each method in the middle of its second epoch.
func TestCheckpointsOfEarlierVersionsResume(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		t.Fatal(err)
	}
	for _, method := range Names {
		t.Run(method, func(t *testing.T) {
			settings := small(method)
			settings.Encoder, settings.WarmupEpochs = "conv4-w2", 1
			trainer := newTrainer(t, b, synthetic.Images(20, 16, 1), settings)
			goldenrun.Run{
				Name: method, Middle: 3, Steps: trainer.Steps(),
				Begin: func() error { return trainer.Begin(views.Default(), 7) },
				Step: func() (any, error) {
					loss, err := trainer.Step(t.Context())
					return map[string]float64{"loss": loss, "epoch_loss": trainer.EpochLoss()}, err
				},
				Save: trainer.Save, Resume: trainer.Resume,
			}.Check(t)
		})
	}
}
