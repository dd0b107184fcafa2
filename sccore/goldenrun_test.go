package sccore_test

import (
	"testing"

	"github.com/semcon/semcon/internal/goldenrun"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/heads"
)

// TestCheckpointsOfEarlierVersionsResume resumes runs with every loss, in one part and in two.
func TestCheckpointsOfEarlierVersionsResume(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	for name, parts := range map[string]int{"run": 1, "run-in-parts": 2} {
		t.Run(name, func(t *testing.T) {
			config := tiny()
			config.ImageHead, config.PatchHead = heads.Projector{HiddenDim: 8, OutDim: 4}, heads.Projector{HiddenDim: 8, OutDim: 4}
			config.AccumulationSteps, config.Batch, config.WarmupSteps, config.Prototypes = parts, 4*parts, 2, 2
			trainer, err := sccore.NewNarrowTrainer(onGo(t), tinyData(), config)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(trainer.Close)
			goldenrun.Run{
				Name: name, Middle: 3, Steps: config.Steps,
				Begin: func() error { return trainer.Begin(7) },
				Step:  func() (any, error) { return trainer.Step(t.Context()) },
				Save:  trainer.Save, Resume: trainer.Resume,
			}.Check(t)
		})
	}
}
