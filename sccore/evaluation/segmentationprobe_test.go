package evaluation

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/semcon/semcon/sccore/settings"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/heads"
	"github.com/semcon/semcon/sccore/metrics"
)

// TestSegmentationProbeLearns trains on scenes with an untrained encoder. The result must beat the best single class for all pixels.
func TestSegmentationProbeLearns(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		frozen := frozenScenes(t, b, 8).Extractor
		probe := SegmentationProbe{CropSize: 32, TestSize: 40, MinScale: 0.5, Epochs: 12, Batch: 8, LearningRate: 1e-2}
		train, test := synthetic.Scenes(24, 40, 5).Segmentation(), synthetic.Scenes(8, 40, 6).Segmentation()
		measure := func(seed uint64) metrics.Segmentation {
			t.Helper()
			result, err := probe.Evaluate(context.Background(), &Encoder{FeatureExtractor: frozen, Seed: seed}, Data{Train: train, Test: test})
			if err != nil {
				t.Fatal(err)
			}
			return result
		}
		first, again, other := measure(1), measure(1), measure(2)
		chance := 0.0
		for class := range test.Classes {
			confusion := metrics.NewConfusion(len(test.Classes))
			for i := range test.Len() {
				a, err := test.Read(i)
				if err == nil {
					err = confusion.Add(a.Mask, slices.Repeat([]uint8{uint8(class)}, len(a.Mask)))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			chance = max(chance, confusion.Segmentation().MIoU)
		}
		if first.MIoU < chance+2 || other.MIoU < chance+2 {
			t.Errorf("mIoU %.1f and %.1f, by chance %.1f", first.MIoU, other.MIoU, chance)
		}
		if first.MIoU != again.MIoU || first.MIoU == other.MIoU {
			t.Logf("by chance %.1f", chance)
			t.Errorf("mIoU %v, once more %v, with another seed %v", first.MIoU, again.MIoU, other.MIoU)
		}
	})
}

func TestSegmentationProbeRefuses(t *testing.T) {
	b := testbackend.Fastest(t)
	f := frozenScenes(t, b, 4)
	for want, change := range map[string]func(*SegmentationProbe){
		"test 0":     func(p *SegmentationProbe) { p.TestSize = 0 },
		"epochs 0":   func(p *SegmentationProbe) { p.Epochs = 0 },
		"batch 0":    func(p *SegmentationProbe) { p.Batch = 0 },
		"rate -1":    func(p *SegmentationProbe) { p.LearningRate = -1 },
		"train 0":    func(p *SegmentationProbe) { p.CropSize = 0 },
		"min_area 0": func(p *SegmentationProbe) { p.MinScale = 0 },
		"train 20 and test 448 are not both multiples of the patch size 8": func(p *SegmentationProbe) { p.CropSize = 20 },
	} {
		probe := DefaultSegmentationProbe()
		change(&probe)
		err := settings.Check(probe)
		if err == nil {
			_, err = probe.Evaluate(context.Background(), &Encoder{FeatureExtractor: f.Extractor, Seed: 1}, Data{Train: f.Images, Test: f.Images})
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %v, want one line with %q", err, want)
		}
	}
	small := SegmentationProbe{CropSize: 16, TestSize: 16, MinScale: 0.5, Epochs: 1, Batch: 2, LearningRate: 1e-3}
	ctx, stop := context.WithCancel(context.Background())
	stop()
	if _, err := small.Evaluate(ctx, &Encoder{FeatureExtractor: f.Extractor, Seed: 1}, Data{Train: f.Images, Test: f.Images}); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
}

// TestCropsWithoutAnnotationTeachNothing: a batch of ignored pixels has loss 0 and does not change the heads.
func TestCropsWithoutAnnotationTeachNothing(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		f := frozenScenes(t, b, 2)
		for _, kind := range []string{heads.Linear, heads.FCN} {
			trainer, err := NewSegmentationTrainer(b, SegmentationConfig{
				Head: heads.Segmentation{Kind: kind, Classes: 7, Width: 4}, Dim: 64, Grid: 3, Batch: 2, Steps: 4, LearningRates: []float64{0.1}, FinalLearningRate: 1e-4,
			})
			if err != nil {
				t.Fatal(err)
			}
			defer trainer.Close()
			if err := trainer.Begin(1); err != nil {
				t.Fatal(err)
			}
			logits := func() []float32 {
				t.Helper()
				out, err := trainer.Logits(tensors.FromFlatDataAndDimensions(slices.Repeat([]float32{0.5}, 9*64), 1, 3, 3, 64))
				if err != nil {
					t.Fatal(err)
				}
				return tensors.MustCopyFlatData[float32](out[0])
			}
			before := logits()
			ignored := gather(t, f.Crops(context.Background(), []Sample{{0, 0}, {1, 0}}))
			for i, crop := range ignored {
				ignored[i].Labels = slices.Repeat([]uint8{datasets.Ignore}, len(crop.Labels))
			}
			trainer.Crops = func(context.Context, int) iter.Seq2[Patches, error] { return crops(ignored...) }
			losses, err := trainer.Step(t.Context())
			if err != nil || losses[0] != 0 || !slices.Equal(before, logits()) {
				t.Errorf("%s: loss %v, %v, or the head has learnt", kind, losses, err)
			}
			trainer.Crops = func(context.Context, int) iter.Seq2[Patches, error] { return crops(ignored[0]) }
			if _, err := trainer.Step(t.Context()); err == nil {
				t.Errorf("%s: one crop is a batch of 2", kind)
			}
		}
	})
}

func ExampleSegmentationProbe() {
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		panic(err)
	}
	vit, err := encoder.ViTByName("vit-tiny")
	if err != nil {
		panic(err)
	}
	store := model.NewStore() // Untrained weights; package weights reads a file's.
	model.MustCallOnce(b, store, func(scope *model.Scope, x *Node) *Node { return vit.Tokens(scope, x).Class }, tensors.FromFlatDataAndDimensions(make([]float32, 8*8*3), 1, 8, 8, 3))
	frozen, err := NewFeatureExtractor(b, vit, store, "/", 4)
	if err != nil {
		panic(err)
	}
	defer frozen.Close()
	probe := SegmentationProbe{CropSize: 16, TestSize: 32, MinScale: 0.25, Epochs: 1, Batch: 4, LearningRate: 3e-3}
	result, err := probe.Evaluate(context.Background(), &Encoder{FeatureExtractor: frozen}, Data{Train: synthetic.Scenes(8, 32, 1).Segmentation(), Test: synthetic.Scenes(4, 32, 2).Segmentation()})
	fmt.Println(len(result.IoU), "classes,", result.MIoU > 0, err)
	// Output: 7 classes, true <nil>
}
