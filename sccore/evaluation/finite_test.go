package evaluation_test

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/knn"
)

// No evaluation makes a number of features that are not finite. Its error names the image.
func TestEvaluationsRefuseWhatIsNotFinite(t *testing.T) {
	b, ctx := testbackend.Go(t), context.Background()
	v, store := smallViT(t)
	frozen, err := evaluation.NewFeatureExtractor(b, v, store, "/online", 2)
	if err != nil {
		t.Fatal(err)
	}
	defer frozen.Close()
	bias := make([]float32, v.Dim) // Of a training that has diverged.
	bias[3] = float32(math.Inf(1))
	if err := store.GetVariable("/online/norm/bias").SetValue(tensors.FromValue(bias)); err != nil {
		t.Fatal(err)
	}
	objects, scenes := synthetic.Objects(4, 16, 1), synthetic.Scenes(4, 16, 2).Segmentation()
	drawn := [2]*synthetic.Set{synthetic.Scenes(4, 16, 3), synthetic.Scenes(4, 16, 4)}
	encoder := &evaluation.Encoder{FeatureExtractor: frozen}
	pictures := evaluation.Data{Objects: [2]datasets.Source{objects.Images, objects.Images}, Labels: [2][]int32{objects.Labels, objects.Labels}, Classes: len(objects.Classes), Scenes: drawn}
	probe := evaluation.PatchProbe{Steps: 2, Batch: 4, LearningRate: 0.01}
	propagation := evaluation.LabelPropagation{ShortSide: 64, PreviousFrames: 1, K: 1, Radius: 2, Temperature: 0.1}
	for name, c := range map[string]struct {
		measure func() error
		want    string
	}{
		"k-NN while training": {func() error {
			_, err := evaluation.During(1, "knn", evaluation.KNN{Classifier: knn.Classifier{K: 1, Temperature: 0.1}, Size: 16}, encoder, pictures).Evaluate(ctx)
			return err
		}, "image 0 of " + objects.Name},
		"probe while training": {func() error {
			_, err := evaluation.During(1, "probe", probe, encoder, pictures).Evaluate(ctx)
			return err
		}, "image 0 of " + drawn[0].Images.Name},
		"spread while training": {func() error {
			_, err := evaluation.During(1, "spread", evaluation.Spread{Images: 4, Size: 16}, encoder, pictures).Evaluate(ctx)
			return err
		}, "image 0 of "},
		"segmentation": {func() error {
			p := evaluation.SegmentationProbe{CropSize: 16, TestSize: 16, MinScale: 0.5, Epochs: 1, Batch: 2, LearningRate: 1e-3}
			_, err := p.Evaluate(ctx, encoder, evaluation.Data{Train: scenes, Test: scenes})
			return err
		}, " of " + scenes.Name},
		"centroid": {func() error {
			_, err := evaluation.NearestCentroid{Size: 16}.Measure(ctx, encoder, evaluation.Data{Train: scenes, Test: scenes})
			return err
		}, "image 0 of " + scenes.Name},
		"video": {func() error {
			tracker, err := propagation.NewTracker(b, store, v.PatchSize, func(scope *model.Scope, images *graph.Node) *graph.Node {
				return v.Tokens(scope.In("online"), images).Patches
			})
			if err != nil {
				return err
			}
			defer tracker.Close()
			_, err = tracker.Track(ctx, synthetic.Videos(1, 2, 64, 1).All[0])
			return err
		}, "frame 0"},
	} {
		if err := c.measure(); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "finite") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestFeatureExtractorNamesTheImageThatIsNotFinite(t *testing.T) {
	v, store := smallViT(t)
	frozen, err := evaluation.NewFeatureExtractor(testbackend.Go(t), v, store, "/online", 2)
	if err != nil {
		t.Fatal(err)
	}
	defer frozen.Close()
	for name, want := range map[string]string{"photos/night.png": "image photos/night.png: ", "": "image 2: "} {
		images := []evaluation.Image{{}, {}, {Name: name}}
		for i := range images {
			images[i].Height, images[i].Width, images[i].Pixels = 8, 8, make([]float32, 8*8*3)
		}
		images[2].Pixels[5] = float32(math.Inf(1))
		done := 0
		var last error
		for _, last = range frozen.Extract(stream(images), evaluation.Outputs{Patches: true}) {
			if last == nil {
				done++
			}
		}
		if done != 2 || last == nil || !strings.HasPrefix(last.Error(), want) {
			t.Errorf("after %d images %v, want %q", done, last, want)
		}
	}
}
