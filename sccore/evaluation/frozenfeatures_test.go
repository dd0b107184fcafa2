package evaluation

import (
	"context"
	"errors"
	"iter"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/analysis/stats"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/heads"
	"github.com/semcon/semcon/sccore/metrics"
)

// frozenScenes are six scenes and an untrained encoder that runs on batch images at a time.
func frozenScenes(t *testing.T, b compute.Backend, batch int) FrozenFeatures {
	t.Helper()
	vit, err := encoder.ViTByName("vit-tiny")
	if err != nil {
		t.Fatal(err)
	}
	store := model.NewStore()
	store.SetRNGStateFromSeed(1)
	image := tensors.FromFlatDataAndDimensions(make([]float32, 8*8*3), 1, 8, 8, 3)
	model.MustCallOnce(b, store, func(scope *model.Scope, x *Node) *Node { return vit.Tokens(scope, x).Class }, image) // This creates the weights.
	frozen, err := NewFeatureExtractor(b, vit, store, "/", batch)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(frozen.Close)
	return FrozenFeatures{Extractor: frozen, Images: synthetic.Scenes(6, 40, 3).Segmentation(), Crop: RandomResizedCrop{24, 0.25}, Seed: 7, TestSize: 32}
}

func gather(t *testing.T, features iter.Seq2[Patches, error]) (all []Patches) {
	t.Helper()
	for patches, err := range features {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, patches)
	}
	return all
}

func samePatches(a, b Patches) bool {
	return slices.Equal(a.Features, b.Features) && slices.Equal(a.Labels, b.Labels)
}

func TestFrozenFeaturesDoNotDependOnTheBatch(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		f := frozenScenes(t, b, 4)
		samples := []Sample{{0, 0}, {3, 0}, {3, 1}, {5, 2}, {0, 0}}
		ctx := context.Background()
		all := gather(t, f.Crops(ctx, samples))
		if len(all) != 5 || len(all[0].Features) != 3*3*64 || len(all[0].Labels) != 24*24 {
			t.Fatalf("%d crops, the first of %d features and %d labels", len(all), len(all[0].Features), len(all[0].Labels))
		}
		if !slices.Equal(all[0].Labels, all[4].Labels) || samePatches(all[1], all[2]) {
			t.Error("a crop depends on more than its name")
		}
		alone := gather(t, f.Crops(ctx, samples[3:4]))
		for i, value := range alone[0].Features { // Rounding differs at another place in the batch.
			if diff := value - all[3].Features[i]; !(diff < 1e-5 && diff > -1e-5) || !slices.Equal(alone[0].Labels, all[3].Labels) {
				t.Fatalf("a crop depends on those beside it: feature %d is %g and %g", i, value, all[3].Features[i])
			}
		}

		whole := gather(t, f.Whole(ctx, []int{1, 5}))
		if len(whole) != 2 || len(whole[0].Features) != 4*4*64 || whole[0].Labels != nil || samePatches(whole[0], whole[1]) {
			t.Errorf("%d whole images", len(whole))
		}
	})
}

func TestFrozenFeaturesStop(t *testing.T) {
	b := testbackend.Fastest(t)
	f := frozenScenes(t, b, 2)
	ctx, stop := context.WithCancel(context.Background())
	stop()
	for _, err := range f.Crops(ctx, []Sample{{0, 0}, {1, 0}}) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error %v after a stop", err)
		}
	}
}

// TestEvaluateCountsEachPixelOnce compares with predictions image by image, for more images than fit in a block.
func TestEvaluateCountsEachPixelOnce(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		f := frozenScenes(t, b, 3)
		trainer, err := NewSegmentationTrainer(b, SegmentationConfig{
			Head: heads.Segmentation{Kind: heads.Linear, Classes: 7, Width: 0}, Dim: 64, Grid: 3, Batch: 2, Steps: 4, LearningRates: []float64{0.1, 0.001}, FinalLearningRate: 1e-4,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer trainer.Close()
		trainer.Frozen = f
		if err := trainer.Begin(1); err != nil {
			t.Fatal(err)
		}
		trainer.Crops = func(ctx context.Context, _ int) iter.Seq2[Patches, error] {
			return f.Crops(ctx, []Sample{{0, 0}, {1, 0}})
		}
		for range 4 {
			if _, err := trainer.Step(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		which := []int{0, 1, 2, 3, 4, 5}
		got, err := trainer.Evaluate(which, f.Whole(context.Background(), which))
		if err != nil || len(got) != 2 {
			t.Fatal(got, err)
		}
		for head := range got {
			confusion, byImage := metrics.NewConfusion(7), stats.ByImage{}
			for _, i := range which {
				err := trainer.Predict([]int{i}, f.Whole(context.Background(), []int{i}), func(_ int, a *datasets.SegmentedImage, of int, classes []uint8) error {
					if of != head {
						return nil
					}
					counts, err := confusion.AddImage(a.Mask, classes)
					byImage = append(byImage, counts)
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			if want := confusion.Segmentation(); want.MIoU != got[head].MIoU || want.Accuracy != got[head].Accuracy || !(want.Accuracy > 0) {
				t.Errorf("head %d: mIoU %g, accuracy %g, one by one %g, %g", head, got[head].MIoU, got[head].Accuracy, want.MIoU, want.Accuracy)
			}
			if counts := stats.ByImage(got[head].ByImage); !reflect.DeepEqual(counts, byImage) || !(math.Abs(counts.Score(nil)-got[head].MIoU) <= 1e-9) {
				t.Errorf("head %d: %v, one by one %v", head, counts, byImage)
			}
		}
		short := FrozenFeatures{Extractor: f.Extractor, Images: f.Images, TestSize: f.TestSize - 8}
		for want, features := range map[string]iter.Seq2[Patches, error]{
			"segmentation: 0 values are the features of image 5, want 1024":   f.Whole(t.Context(), which[:5]),
			"segmentation: 576 values are the features of image 0, want 1024": short.Whole(t.Context(), which),
		} {
			if _, err := trainer.Evaluate(which, features); err == nil || err.Error() != want {
				t.Errorf("error %v, want %s", err, want)
			}
		}
		if got[0].Accuracy == got[1].Accuracy && got[0].MIoU == got[1].MIoU {
			t.Error("two heads have the same result")
		}
	})
}
