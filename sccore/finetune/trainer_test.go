package finetune

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
)

// tiny is a training of seconds on the Go engine.
func tiny(head string) SegmentationTraining {
	vit := encoder.ViT{Name: "tiny", PatchSize: 4, Dim: 8, Depth: 2, NumHeads: 2, GridSize: 4, Positions: encoder.DINOPositions, InitStd: 0.2}
	return SegmentationTraining{
		Segmenter: Segmenter{ViT: vit, Head: head, Classes: 3, Channels: 8},
		Transform: SegmentationTransform{Scale: Scale{16, 16}, MinRatio: 0.8, MaxRatio: 1.5, CropSize: 16, CatMaxRatio: 1},
		Training: Training{
			Optimizer: Optimizer{LearningRate: 1e-2, LayerDecay: 0.9, WeightDecay: 0.05, WarmUp: 2, WarmUpRatio: 0.1, Power: 1, Milestones: [2]float64{1, 1}, DropPath: 0.1},
			Batch:     4, Parts: 1, Steps: 60, Mean: [3]float64{0.5, 0.5, 0.5}, Std: [3]float64{0.25, 0.25, 0.25},
		},
	}
}

// stripes are scenes whose left part is red, of class 0, and whose right part is blue, of class 1; the last column is ignored.
func stripes(size int) *datasets.Segmentation {
	return datasets.NewSegmentation("stripes", []string{"red", "blue", "green"}, "stripes", 16, func(i int) (*datasets.SegmentedImage, error) {
		random := rand.New(rand.NewPCG(1, uint64(i)))
		a := &datasets.SegmentedImage{Height: size, Width: size}
		edge := 4 + random.IntN(8)
		for range size {
			for x := range size {
				pixel, class := []uint8{200, uint8(random.IntN(60)), 30}, uint8(0)
				if x >= edge {
					pixel, class = []uint8{30, uint8(random.IntN(60)), 200}, 1
				}
				if x == size-1 {
					class = datasets.Ignore
				}
				a.Pixels, a.Mask = append(a.Pixels, pixel...), append(a.Mask, class)
			}
		}
		return a, nil
	})
}

func TestTrainingLearnsAndResumes(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	for _, head := range []string{UPerNet, FPN} {
		for _, parts := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s in %d parts", head, parts), func(t *testing.T) {
				config := tiny(head)
				config.Parts = parts
				testLearnsAndResumes(t, testbackend.Go(t), config)
			})
		}
		t.Run(head+" with an encoder in bfloat16", func(t *testing.T) {
			config := tiny(head)
			config.Segmenter.ViT.ComputeDType = dtypes.BFloat16
			testLearnsAndResumes(t, testbackend.Go(t), config)
		})
	}
}

func testLearnsAndResumes(t *testing.T, b compute.Backend, config SegmentationTraining) {
	trainer, err := NewSegmentationTrainer(b, config)
	if err != nil {
		t.Fatal(err)
	}
	defer trainer.Close()
	trainer.Images = stripes(config.Transform.CropSize)
	ctx := context.Background()
	checkpoint := filepath.Join(t.TempDir(), "nearly.safetensors")
	if err := trainer.Begin(1); err != nil {
		t.Fatal(err)
	}
	var first, last SegmentationStep
	for i := range config.Steps {
		if last, err = trainer.Step(ctx); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = last
		}
		if i == config.Steps-5 {
			if err := trainer.Save(checkpoint, ""); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("%+v %+v", first, last)
	if last.Loss > 0.3 || first.Loss < 0.9 { // Guessing among three classes has a loss of log 3, times the share of pixels that count.
		t.Errorf("the loss fell from %.2f to %.2f, want from above 0.9 to below 0.3", first.Loss, last.Loss)
	}
	if _, err := trainer.Resume(checkpoint); err != nil {
		t.Fatal(err)
	}
	var again SegmentationStep
	for trainer.Done() < config.Steps {
		if again, err = trainer.Step(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if again != last {
		t.Errorf("after resuming, the last step is %+v, and was %+v", again, last)
	}
}

func TestSegmenterChecksItsHead(t *testing.T) {
	s := Segmenter{Classes: 3, Channels: 1}
	wantError(t, exceptions.TryCatch[error](func() { s.decoder(s.fpn(), false) }), "channels 0")
}

// TestLossOfSegmentation: mmsegmentation adds 0.4 of UPerNet's auxiliary head, and FPN has none. Dropped blocks change the loss.
func TestLossOfSegmentation(t *testing.T) {
	for head, weight := range map[string]float64{UPerNet: 0.4, FPN: 0} {
		config, store := tiny(head), model.NewStore()
		if err := store.SetRNGStateFromSeed(3); err != nil {
			t.Fatal(err)
		}
		losses := model.MustNewExec(testbackend.Go(t), store, func(scope *model.Scope, inputs []*Node) []*Node {
			total, reports := config.loss(scope, inputs)
			return []*Node{total, reports[0].Node, reports[1].Node}
		})
		var of [2][]float64
		for i := range of { // Every block is dropped, or kept.
			pixels, labels, sizes := make([]uint8, 4*16*16*3), make([]uint8, 4*16*16), slices.Repeat([]int32{16}, 8)
			for p := range labels {
				labels[p], pixels[3*p] = uint8(p%3), uint8(p*p)
			}
			keep := slices.Repeat([]float32{float32(i)}, config.Segmenter.ViT.Depth*2*4)
			for _, loss := range losses.MustCall(
				tensors.FromFlatDataAndDimensions(pixels, 4, 16, 16, 3), tensors.FromFlatDataAndDimensions(labels, 4, 16, 16),
				tensors.FromFlatDataAndDimensions(sizes, 4, 2), tensors.FromFlatDataAndDimensions(keep, config.Segmenter.ViT.Depth, 2, 4),
			) {
				of[i] = append(of[i], float64(tensors.ToScalar[float32](loss)))
			}
			if total, main, auxiliary := of[i][0], of[i][1], of[i][2]; !(math.Abs(total-(main+weight*auxiliary)) <= 1e-5) || (auxiliary > 0) != (weight > 0) {
				t.Errorf("%s: a loss of %g, of %g and %g", head, total, main, auxiliary)
			}
		}
		if of[0][0] == of[1][0] {
			t.Errorf("%s: without all blocks the loss is still %g", head, of[0][0])
		}
		losses.Finalize()
		store.Finalize()
	}
}

// TestPositionsAreResizedOnceAndLevelsHalved trains on positions that were stored for another grid, with the pyramid of small patches.
func TestPositionsAreResizedOnceAndLevelsHalved(t *testing.T) {
	b := testbackend.Go(t)
	for _, head := range []string{UPerNet, FPN} {
		config := tiny(head)
		stored := config.Segmenter.ViT
		stored.GridSize = 3
		pretrained := model.NewStore()
		for _, w := range stored.Weights() {
			values := make([]float32, shapes.Make(dtypes.Float32, w.Shape...).Size())
			for i := range values {
				values[i] = float32(i / stored.Dim)
			}
			if _, err := pretrained.CreateVariable("/"+w.Path, tensors.FromFlatDataAndDimensions(values, w.Shape...)); err != nil {
				t.Fatal(err)
			}
		}
		config.Segmenter.Halved, config.Steps = true, 2
		trainer, err := NewSegmentationTrainer(b, config)
		if err != nil {
			t.Fatal(err)
		}
		trainer.Images, trainer.Pretrained = stripes(16), pretrained
		if err := trainer.Begin(1); err != nil {
			t.Fatal(err)
		}
		table := trainer.Store().GetVariable("/" + backboneScope + "/pos_embed").MustValue()
		values := tensors.MustCopyFlatData[float32](table)
		// In the second row and column PyTorch's kernel (a = −0.75, at 0.625) gives 0.7495·1 − 0.1099·2 = 0.5298 of a table of 0, 1, 2; here rows count three times.
		if want := 1 + 4*0.5298; table.Shape().Dim(1) != 17 || values[0] != 0 || !(math.Abs(float64(values[stored.Dim*(1+5)])-want) <= 1e-3) {
			t.Errorf("%s: %v, %v", head, table.Shape(), values)
		}
		if _, err := trainer.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		logits, err := trainer.Segment(t.Context(), Canvases{Count: 1, Size: datasets.Size{Height: 16, Width: 16}, Pixels: make([]uint8, 16*16*3), Fill: []int32{16, 16}})
		if err != nil || logits.Rows != 8 || logits.Columns != 8 {
			t.Errorf("%s: logits of %d×%d, %v", head, logits.Rows, logits.Columns, err)
		}
		trainer.Close()
		pretrained.Finalize()
	}
}
