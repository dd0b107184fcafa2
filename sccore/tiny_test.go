package sccore_test

import (
	"testing"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/heads"
	"github.com/semcon/semcon/sccore/knn"
)

// tiny is a configuration with everything on. The Go engine takes a fraction of a second per step.
func tiny() sccore.Config {
	c := sccore.Default()
	c.Encoder, c.Prototypes = "vit-tiny", 4
	c.ImageHead, c.PatchHead = heads.Projector{HiddenDim: 16, OutDim: 8}, heads.Projector{HiddenDim: 16, OutDim: 8}
	c.Views.GlobalCropSize, c.Views.Locals, c.Views.LocalCropSize, c.ImageSize = 24, 1, 16, 32
	c.Batch, c.Steps, c.MetricsEvery, c.Neighbours = 4, 6, 2, 2
	c.LearningRate, c.FinalLearningRate, c.TargetMomentum = 1e-3, 1e-4, 0.9
	return c
}

// tinyData are synthetic images of tiny's image size.
func tinyData() sccore.Data {
	objects, scenes := synthetic.Objects(6, 32, 1), synthetic.Scenes(6, 32, 2)
	return sccore.Data{
		Objects: objects, Scenes: scenes,
		Neighbours: &knn.Neighbours{K: 2, Indices: []int32{1, 2, 0, 2, 0, 1, 4, 5, 3, 5, 3, 4}},
		Labels: func(image int32, labels []uint8, size int) error {
			masks, i := objects.ClassMask, int(image)
			if i >= objects.Len() {
				masks, i = scenes.ClassMask, i-objects.Len()
			}
			copy(labels, masks[i*size*size:(i+1)*size*size])
			return nil
		},
	}
}

// onGo opens the Go engine, which compiles a tiny step in no time.
func onGo(t *testing.T) compute.Backend {
	t.Helper()
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func newTrainer(t testing.TB, b compute.Backend, data sccore.Data, config sccore.Config) *sccore.Trainer {
	t.Helper()
	trainer, err := sccore.NewTrainer(b, data, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(trainer.Close)
	return trainer
}

var tinyTrainers = map[string]*sccore.Trainer{}

// tinyTrainer is the trainer of tiny's configuration that the tests of a backend share, since compiling it takes most of their time. Each begins its own run.
func tinyTrainer(t *testing.T, b compute.Backend) *sccore.Trainer {
	t.Helper()
	trainer, ok := tinyTrainers[b.Name()]
	if !ok {
		var err error
		if trainer, err = sccore.NewTrainer(b, tinyData(), tiny()); err != nil {
			t.Fatal(err)
		}
		tinyTrainers[b.Name()] = trainer
	}
	return trainer
}

// trained begins a run of the seed, takes steps and returns their metrics.
func trained(t *testing.T, trainer *sccore.Trainer, seed uint64, steps int) []sccore.StepMetrics {
	t.Helper()
	if err := trainer.Begin(seed); err != nil {
		t.Fatal(err)
	}
	return more(t, trainer, steps)
}

func more(t *testing.T, trainer *sccore.Trainer, steps int) (all []sccore.StepMetrics) {
	t.Helper()
	for range steps {
		metrics, err := trainer.Step(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, metrics)
	}
	return all
}
