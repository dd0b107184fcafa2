package theory

import (
	"path/filepath"
	"testing"

	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/methods"
	"github.com/semcon/semcon/sccore/views"
)

func TestEveryLinkOnTrainedEncoders(t *testing.T) {
	b := testbackend.Fastest(t)
	images := synthetic.Images(64, 32, 1).Subset(32)
	frozen, err := methods.NewFeatureExtractor(b, "conv4-w2", 32, 3)
	if err != nil {
		t.Fatal(err)
	}
	defer frozen.Close()
	trainer, err := methods.NewTrainer(b, images, methods.Config{Method: methods.SimCLR, Encoder: "conv4-w2", Batch: 16, Epochs: 4, LearningRate: 0.1,
		Momentum: 0.9, ProjectorHidden: 8, ProjectorDim: 4, Temperature: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	defer trainer.Close()
	path := filepath.Join(t.TempDir(), "weights.safetensors")
	for seed := range uint64(3) {
		if err := trainer.Begin(views.Default(), seed); err != nil {
			t.Fatal(err)
		}
		for trainer.Done() < trainer.Steps() {
			if _, err := trainer.Step(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := trainer.SaveOnline(path, nil); err != nil {
			t.Fatal(err)
		}
		if err := frozen.Load(path); err != nil {
			t.Fatal(err)
		}
		flat, dim, err := frozen.Features(images, views.Default(), seed)
		if err != nil {
			t.Fatal(err)
		}
		f, err := NewFeaturesInForm(flat, dim, images.Labels, 0, BackboneForm)
		if err != nil {
			t.Fatal(err)
		}
		for _, thresholds := range [][2]float64{{0.9, 0.5}, {0.99, 0.9}, {0.5, 0.99}} {
			tails, err := f.Tails(thresholds[0], thresholds[1])
			if err != nil {
				t.Fatal(err)
			}
			proof(t, f, tails)
			for _, c := range f.Lemmas(tails, 0.25) {
				switch c.Name {
				case "condition_cls_correct, E15", "var_bnd", "bounds_of_expt (a)", "bounds_of_expt (b)":
					if c.Fails > 0 {
						t.Errorf("seed %d: %+v", seed, c)
					}
				}
			}
		}
	}
}
