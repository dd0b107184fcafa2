package evaluation_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/heads"
	"github.com/semcon/semcon/sccore/knn"
	"github.com/semcon/semcon/sccore/train"
)

// TestEvaluatorsLeaveTrainingAsItIs trains a tiny encoder with and without all evaluators and compares the last checkpoints.
func TestEvaluatorsLeaveTrainingAsItIs(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Finalize()
	objects, scenes := [2]*synthetic.Set{}, [2]*synthetic.Set{}
	for i := range 2 {
		objects[i], scenes[i] = synthetic.Objects(12, 24, uint64(1+i)), synthetic.Scenes(6, 24, uint64(3+i))
	}
	config := sccore.Ablations[1].Config(sccore.Default())
	config.Encoder, config.PatchHead = "vit-tiny", heads.Projector{HiddenDim: 8, OutDim: 4}
	config.Views.GlobalCropSize, config.Views.Locals, config.ImageSize = 16, 0, 24
	config.Batch, config.Steps, config.LearningRate = 2, 5, 1e-3
	trainer, err := sccore.NewTrainer(b, sccore.Data{Scenes: scenes[0]}, config)
	if err != nil {
		t.Fatal(err)
	}
	defer trainer.Close()
	vit, store, scope := trainer.Encoder(sccore.Online)
	extractor, err := evaluation.NewFeatureExtractor(b, vit, store, scope, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer extractor.Close()

	frozen := &evaluation.Encoder{FeatureExtractor: extractor}
	pictures := evaluation.Data{
		Objects: [2]datasets.Source{objects[0].Images, objects[1].Images}, Labels: [2][]int32{objects[0].Labels, objects[1].Labels},
		Classes: len(objects[0].Classes), Scenes: scenes,
	}
	var checkpoints [2]string
	var curve []map[string]float64
	for i, every := range []int{0, 2} {
		dir := t.TempDir()
		err := (&train.Loop[sccore.StepMetrics]{
			Trainer: trainer, Dir: dir, Final: "final.safetensors", Every: time.Hour, Start: func() error { return trainer.Begin(3) },
			Evaluators: []train.Evaluator{
				evaluation.During(every, "knn", evaluation.KNN{Classifier: knn.Classifier{K: 3, Temperature: 0.1}, Size: 24}, frozen, pictures),
				evaluation.During(every, "probe", evaluation.PatchProbe{Steps: 5, Batch: 16, LearningRate: 0.01}, frozen, pictures),
				evaluation.During(every, "spread", evaluation.Spread{Images: 4, Size: 24}, frozen, evaluation.Data{Objects: [2]datasets.Source{scenes[0].Images}}),
			},
			After: func(_ sccore.StepMetrics, evaluated map[string]float64) error {
				if evaluated != nil {
					curve = append(curve, evaluated)
				}
				return nil
			},
		}).Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		bytes, err := os.ReadFile(filepath.Join(dir, "final.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		checkpoints[i] = string(bytes)
	}
	if checkpoints[0] != checkpoints[1] {
		t.Error("the evaluators change the run")
	}
	if len(curve) != 3 {
		t.Fatalf("%d evaluations in 5 steps, want 3: %v", len(curve), curve)
	}
	for _, values := range curve {
		names := slices.Sorted(maps.Keys(values))
		if !slices.Equal(names, []string{"knn/accuracy", "probe/miou", "spread/rank", "spread/std"}) {
			t.Fatalf("values %v", names)
		}
		if a, m := values["knn/accuracy"], values["probe/miou"]; !(a >= 0 && a <= 100 && m > 0 && m <= 100) {
			t.Errorf("accuracy %g, mIoU %g, want percentages", a, m)
		}
		if s, r := values["spread/std"], values["spread/rank"]; !(s > 0 && s <= 1 && r > 1 && r <= float64(vit.Dim)) {
			t.Errorf("spread %g, rank %g of %d dimensions", s, r, vit.Dim)
		}
	}
	if curve[0]["spread/std"] == curve[2]["spread/std"] {
		t.Error("the evaluators do not see that the weights change")
	}
}

// TestEvaluatorsStop checks that an evaluation ends with its context.
func TestEvaluatorsStop(t *testing.T) {
	v, store := smallViT(t)
	b := testbackend.Fastest(t)
	extractor, err := evaluation.NewFeatureExtractor(b, v, store, "/online", 2)
	if err != nil {
		t.Fatal(err)
	}
	defer extractor.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	scenes := synthetic.Scenes(2, 16, 1)
	images := evaluation.Data{Objects: [2]datasets.Source{scenes.Images}}
	if _, err := evaluation.During(1, "spread", evaluation.Spread{Images: 2, Size: 16}, &evaluation.Encoder{FeatureExtractor: extractor}, images).Evaluate(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want the context's", err)
	}
}
