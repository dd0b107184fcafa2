package evaluation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/dsnet/try"
	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/heads"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/optim"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/train"
)

// SegmentationProbe is the linear segmentation of Tab. main ("Main Results on ImageNet & COCO", "Optimization strategy"): a 1×1 layer
// on frozen patch features of random crops, with one learning rate and few epochs, evaluated at the full size of the annotation.
type SegmentationProbe struct {
	trainAndTest
	CropSize     int     `json:"train" range:"[1,2048]"`  // Height and width of training crops in pixels.
	TestSize     int     `json:"test" range:"[1,2048]"`   // Height and width in pixels that test images are resized to.
	MinScale     float64 `json:"min_area" range:"(0,1]"`  // Least area of a crop, as a share of its image's.
	Epochs       int     `json:"epochs" range:"[1,1000]"` // Each draws a new crop of every image.
	Batch        int     `json:"batch" range:"[1,2^14]"`
	LearningRate float64 `json:"rate" range:"(0,1e4]"` // Adam's, constant.

	Steps int `json:"steps,omitzero" range:"[0,2^31)"` // Training steps, whatever Epochs says; 0 for Epochs.
}

// DefaultSegmentationProbe is the paper's. The paper does not give the area of a crop; ours is in MinScale.
func DefaultSegmentationProbe() SegmentationProbe {
	return SegmentationProbe{CropSize: 336, TestSize: 448, MinScale: 0.25, Epochs: 1, Batch: 256, LearningRate: 3e-3}
}

// Rules returns an error for a batch that does not fit in memory: its features, of the smallest patches and the longest features.
func (p SegmentationProbe) Rules() error {
	return settings.Fit(settings.MaxBytes, fmt.Sprintf("batch %d of crops of train %d", p.Batch, p.CropSize), p.Batch, p.CropSize/8, p.CropSize/8, 768, 4)
}

// Protocol describes the evaluation in one line.
func (p SegmentationProbe) Protocol() string { return p.protocol("linear 1×1 head", 0) }

func (p SegmentationProbe) protocol(head string, final float64) string {
	amount := lo.Ternary(p.Steps > 0, strconv.Itoa(p.Steps), fmt.Sprintf("%d of each training image in", p.Epochs))
	rate := fmt.Sprintf("%g", p.LearningRate)
	if final > 0 {
		rate += fmt.Sprintf(" to %g", final)
	}
	return fmt.Sprintf("%s on fixed patch features; crops of %d px of %g to 1 of an image's area, mirrored half of the time, %s "+
		"batches of %d, Adam at rate %s; test images resized to %d×%d px, logits resized bilinearly to the annotation's size, ignored pixels (255) left out",
		head, p.CropSize, p.MinScale, amount, p.Batch, rate, p.TestSize, p.TestSize)
}

// Measure measures mIoU and pixel accuracy on the test images.
func (p SegmentationProbe) Measure(ctx context.Context, e *Encoder, d Data) (Result, error) {
	return segmentationResult(p.Evaluate(ctx, e, d))
}

// segmentationResult is the result of a segmentation of test images.
func segmentationResult(s metrics.Segmentation, err error) (Result, error) {
	return Result{Numbers: segmentationNumbers("", s), Report: segmentationReport(s), Compared: &s}, err
}

// segmentationNumbers are the numbers of a segmentation. A name tells it from others.
func segmentationNumbers(name string, s metrics.Segmentation) []Number {
	return []Number{{Name: "miou" + name, Metric: "mIoU", Unit: "%", Value: s.MIoU, Images: s.ByImage}, {Name: "accuracy" + name, Metric: "pixel accuracy", Unit: "%", Value: s.Accuracy}}
}

// segmentationReport is a segmentation with a line for people.
type segmentationReport metrics.Segmentation

func (s segmentationReport) String() string {
	return fmt.Sprintf("mIoU %6.2f %%, pixel accuracy %6.2f %%", s.MIoU, s.Accuracy)
}

// FCNProbe is a [SegmentationProbe] with an FCN in place of the linear layer.
type FCNProbe struct {
	SegmentationProbe
	FinalLearningRate float64 `json:"final_rate,omitzero" range:"[0,1e4]"` // At the last step, to which it falls along a cosine; 0 for a constant one.
	Width             int     `json:"width" range:"[1,4096]"`              // Channels, which the paper does not give.
}

// Protocol describes the evaluation in one line.
func (p FCNProbe) Protocol() string {
	return p.protocol(fmt.Sprintf("FCN of width %d", p.Width), p.FinalLearningRate)
}

// Measure measures mIoU and pixel accuracy on the test images.
func (p FCNProbe) Measure(ctx context.Context, e *Encoder, d Data) (Result, error) {
	return segmentationResult(p.evaluate(ctx, e, d, heads.Segmentation{Kind: heads.FCN, Width: p.Width}, p.FinalLearningRate))
}

// Evaluate trains the layer on one set and evaluates it on the other, which has the same classes. The seed draws the layer, the order and the crops.
// Images left over from the last whole batch of an epoch are used at the beginning of the next one, and those left at the very end are not used; a
// set smaller than a batch is one batch. Memory grows with the sets only by their order. It is an error if a size is not a multiple of the encoder's
// patch size, if an image cannot be read, if the loss is not finite, or if no pixel of the test images is annotated.
func (p SegmentationProbe) Evaluate(ctx context.Context, e *Encoder, d Data) (result metrics.Segmentation, err error) {
	return p.evaluate(ctx, e, d, heads.Segmentation{Kind: heads.Linear}, 0)
}

func (p SegmentationProbe) evaluate(ctx context.Context, e *Encoder, d Data, head heads.Segmentation, finalRate float64) (result metrics.Segmentation, err error) {
	defer try.Handle(&err)
	train, test, seed, patch := d.Train, d.Test, e.Seed, e.ViT.PatchSize
	if p.CropSize%patch != 0 || p.TestSize%patch != 0 {
		return result, fmt.Errorf("segmentation: train %d and test %d are not both multiples of the patch size %d of %s", p.CropSize, p.TestSize, patch, e.ViT.Name)
	}
	n := train.Len()
	steps := cmp.Or(p.Steps, max(1, n*p.Epochs/p.Batch))
	head.Classes = len(train.Classes)
	trainer := try.E1(NewSegmentationTrainer(e.backend, SegmentationConfig{
		Head: head, Dim: e.ViT.Dim, Grid: p.CropSize / patch, Batch: p.Batch, Steps: steps, LearningRates: []float64{p.LearningRate}, FinalLearningRate: cmp.Or(finalRate, p.LearningRate),
	}))
	defer trainer.Close()
	try.E(trainer.Begin(seed))
	trainer.Frozen = FrozenFeatures{Extractor: e.FeatureExtractor, Images: train, Crop: RandomResizedCrop{p.CropSize, p.MinScale}, Seed: seed, TestSize: p.TestSize}
	var samples []Sample
	for pass := 0; len(samples) < steps*p.Batch; pass++ {
		samples = append(samples, samplesOf(rand.New(rand.NewPCG(seed, uint64(pass))).Perm(n), pass)...)
	}
	next, stop := iter.Pull2(trainer.Frozen.Crops(ctx, samples[:steps*p.Batch])) // One stream, so that the encoder's batches are full.
	defer stop()
	trainer.Crops = func(context.Context, int) iter.Seq2[Patches, error] { // Called for one step after the other.
		return func(yield func(Patches, error) bool) {
			crop, err, there := next()
			for n := 1; there && yield(crop, err) && n < p.Batch; n++ {
				crop, err, there = next()
			}
		}
	}
	for range steps {
		try.E1(trainer.Step(ctx))
	}
	which := datasets.Spread(test.Len(), 0)
	trainer.Frozen.Images = test
	judged := try.E1(trainer.Evaluate(which, trainer.Frozen.Whole(ctx, which)))
	return judged[0], nil
}

// SegmentationConfig says how heads are trained on the features of a frozen encoder (paper, appendix "Transfer Learning on Semantic Segmentation",
// "Optimization strategy"). The paper searches the learning rate over four values: one head per value is trained on the same crops, so that features
// are computed once for all of them.
type SegmentationConfig struct {
	Head              heads.Segmentation
	Dim               int       `range:"[1,2^14]"` // The length of a feature.
	Grid              int       `range:"[1,2048]"` // The patches along each side of a crop.
	Batch             int       `range:"[1,2^14]"` // Crops per step.
	Steps             int       `range:"[1,2^31)"` // For each head.
	LearningRates     []float64 `range:"(0,1e4]"`  // Adam's, one per head; constant for the linear head.
	FinalLearningRate float64   `range:"(0,1e4]"`  // The end of the FCN's cosine schedule.
}

// Rules returns an error for too few or too many heads.
func (c SegmentationConfig) Rules() error {
	return settings.Between("number of rates", len(c.LearningRates), 1, 64)
}

// rates are the learning rates of a step, one per head.
func (c SegmentationConfig) rates(step int) []float32 {
	return lo.Map(c.LearningRates, func(rate float64, _ int) float32 {
		if c.Head.Kind == heads.FCN {
			rate = optim.Cosine(step, c.Steps, 0, rate, c.FinalLearningRate)
		}
		return float32(rate)
	})
}

// SegmentationTrainer trains the heads of a [SegmentationConfig], one per learning rate. A step reports the heads' losses before its update. The step
// is compiled once and serves any number of runs. A loss that is not finite counts as the largest number, which JSON can hold.
type SegmentationTrainer struct {
	*train.Trainer[[]float32]
	// Crops yields the crops of a step, counted from 0, as [FrozenFeatures.Crops] does: one batch.
	Crops func(ctx context.Context, step int) iter.Seq2[Patches, error]
	// Frozen has the images that Evaluate and Predict segment, and computes their features.
	Frozen FrozenFeatures

	config SegmentationConfig
	logits *model.Exec
}

// NewSegmentationTrainer compiles the step. Call Begin first, also before Resume: checkpoints do not identify their run.
func NewSegmentationTrainer(b compute.Backend, config SegmentationConfig) (_ *SegmentationTrainer, err error) {
	defer try.Handle(&err)
	t := &SegmentationTrainer{config: config}
	t.Trainer = try.E1(train.New(b, t.task()))
	t.logits, err = model.NewExec(b, t.Store(), func(scope *model.Scope, features *Node) []*Node {
		return lo.Times(len(config.LearningRates), func(i int) *Node {
			return TransposeAllAxes(config.Head.Logits(headScope(scope, i), features), 2, 0, 1, 3)
		})
	})
	return t, err
}

// Close frees the device's memory.
func (t *SegmentationTrainer) Close() {
	t.logits.Finalize()
	t.Trainer.Close()
}

// headScope is the scope of the variables of one head.
func headScope(scope *model.Scope, i int) *model.Scope { return scope.At("head%d", i) }

// Logits returns each head's logits for features, [batch, rows, columns, Dim] with any rows and columns: [batch, s·rows, s·columns, Classes], where s
// is 1 for linear heads and 8 for FCNs. Each new shape is compiled.
func (t *SegmentationTrainer) Logits(features *tensors.Tensor) (logits []*tensors.Tensor, err error) {
	err = backend.Catch(func() error { logits, err = t.logits.Call(features); return err })
	return logits, err
}

// task is the training: features, [Batch, Grid, Grid, Dim]; labels, [Batch, 8·Grid, 8·Grid] of uint8, a class or [datasets.Ignore]; and learning rates.
func (t *SegmentationTrainer) task() train.Task[[]float32] {
	c, side := t.config, heads.Upsampling*t.config.Grid
	return train.Task[[]float32]{
		Steps: func() int { return c.Steps }, Schedule: c.rates, Batches: t.batches, Loss: t.loss, Update: t.update,
		Inputs: []train.Input{
			{Shape: shapes.Make(dtypes.Float32, c.Batch, c.Grid, c.Grid, c.Dim), Divided: true}, {Shape: shapes.Make(dtypes.Uint8, c.Batch, side, side), Divided: true},
		},
		Save: func(at train.Position, metadata map[string]string) error {
			delete(metadata, "position")
			metadata["done"] = strconv.Itoa(at.Done)
			return nil
		},
		Restore: func(metadata map[string]string, at *train.Position) (err error) {
			if at.Done, err = strconv.Atoi(metadata["done"]); err != nil || at.Done < 0 || at.Done > c.Steps {
				return errors.New("no number of steps in the file")
			}
			return nil
		},
	}
}

// loss is the sum of the heads' losses. One of them must be finite: the other learning rates may be too high.
func (t *SegmentationTrainer) loss(scope *model.Scope, inputs []*Node) (*Node, []train.Report[[]float32]) {
	features, labels := inputs[0], TransposeAllAxes(inputs[1], 1, 2, 0)
	head := t.config.Head
	all := Stack(lo.Times(len(t.config.LearningRates), func(i int) *Node { return head.Loss(head.Logits(headScope(scope, i), features), labels) }), 0)
	return ReduceAllSum(all), []train.Report[[]float32]{{Node: all, Read: func(losses *[]float32, _ train.At, value *tensors.Tensor) string {
		all := tensors.MustCopyFlatData[float32](value)
		*losses = lo.Map(all, func(loss float32, _ int) float32 { return lo.Ternary(loss-loss == 0, loss, math.MaxFloat32) })
		return lo.Ternary(slices.Min(*losses) < math.MaxFloat32, "", fmt.Sprintf("the losses of the heads are %v", all))
	}}}
}

// update gives each head its own optimizer. Without weight decay AdamW is Adam.
func (t *SegmentationTrainer) update(scope *model.Scope, variables []*model.Variable, gradients []*Node, rates *Node) []train.Report[[]float32] {
	for i := range t.config.LearningRates {
		var learnt []*model.Variable
		var theirs []*Node
		for k, variable := range variables {
			if strings.HasPrefix(variable.Path(), headScope(scope, i).Scope()+model.ScopeSeparator) {
				learnt, theirs = append(learnt, variable), append(theirs, gradients[k])
			}
		}
		rate := Reshape(Slice(rates, AxisElem(i)))
		optim.DefaultAdamW().Update(scope.At("adam%d", i), learnt, theirs, rate, ZerosLike(rate))
	}
	return nil
}

// batches gathers the crops of one step after the other.
func (t *SegmentationTrainer) batches(ctx context.Context, _ uint64, from int) iter.Seq2[train.Batch, error] {
	c, side := t.config, heads.Upsampling*t.config.Grid
	return func(yield func(train.Batch, error) bool) {
		for step := from; ; step++ {
			var x []float32
			var y []uint8
			for crop, err := range t.Crops(ctx, step) {
				if err != nil {
					yield(train.Batch{}, err)
					return
				}
				x, y = append(x, crop.Features...), append(y, crop.Labels...)
			}
			if len(x) != c.Batch*c.Grid*c.Grid*c.Dim || len(y) != c.Batch*side*side {
				yield(train.Batch{}, fmt.Errorf("segmentation: %d values and %d labels do not make %d crops", len(x), len(y), c.Batch))
				return
			}
			inputs := []any{tensors.FromFlatDataAndDimensions(x, c.Batch, c.Grid, c.Grid, c.Dim), tensors.FromFlatDataAndDimensions(y, c.Batch, side, side)}
			if !yield(train.Batch{Inputs: inputs}, nil) {
				return
			}
		}
	}
}

// evaluateBlock is the number of images whose logits are computed at once.
const evaluateBlock = 4

// Evaluate returns how well each head segments images at the full size of their annotation: logits are resized to it bilinearly (align_corners=false). features
// yields the features of the images in order, as [FrozenFeatures.Whole] does. It is an error if no pixel of the images is annotated.
func (t *SegmentationTrainer) Evaluate(which []int, features iter.Seq2[Patches, error]) (results []metrics.Segmentation, err error) {
	defer try.Handle(&err)
	confusions := lo.Times(len(t.config.LearningRates), func(int) *metrics.Confusion { return metrics.NewConfusion(t.config.Head.Classes) })
	byImage := lo.Times(len(confusions), func(int) [][][3]int { return make([][][3]int, len(which)) })
	var mu sync.Mutex // Sums do not depend on the order.
	try.E(t.Predict(which, features, func(place int, a *datasets.SegmentedImage, head int, classes []uint8) (err error) {
		mu.Lock()
		defer mu.Unlock()
		byImage[head][place], err = confusions[head].AddImage(a.Mask, classes)
		return err
	}))
	return lo.Map(confusions, func(c *metrics.Confusion, head int) metrics.Segmentation {
		result := try.E1(annotated(c))
		result.ByImage = byImage[head]
		return result
	}), nil
}

// annotated is the segmentation that was counted. It is an error if no pixel is annotated.
func annotated(confusion *metrics.Confusion) (metrics.Segmentation, error) {
	result := confusion.Segmentation()
	if math.IsNaN(result.Accuracy) {
		return metrics.Segmentation{}, errNotAnnotated
	}
	return result, nil
}

// Predict calls show with what each head predicts for each image, in parallel: the image's place in which, the image, the head and the class of each pixel.
func (t *SegmentationTrainer) Predict(
	which []int, features iter.Seq2[Patches, error], show func(place int, a *datasets.SegmentedImage, head int, classes []uint8) error,
) (err error) {
	defer try.Handle(&err)
	grid, classes := t.Frozen.TestSize/t.Frozen.Extractor.ViT.PatchSize, t.config.Head.Classes
	next, stop := iter.Pull2(features)
	defer stop()
	for done := 0; done < len(which); done += evaluateBlock {
		count, image := min(evaluateBlock, len(which)-done), grid*grid*t.config.Dim
		block := make([]float32, evaluateBlock*image) // Filled up with zeros: another shape would compile again.
		for i := range count {
			patches, err, _ := next() // Without values after the end.
			if err != nil || len(patches.Features) != image {
				return cmp.Or(err, fmt.Errorf("segmentation: %d values are the features of image %d, want %d", len(patches.Features), which[done+i], image))
			}
			copy(block[i*image:], patches.Features)
		}
		logits := try.E1(t.Logits(tensors.FromFlatDataAndDimensions(block, evaluateBlock, grid, grid, t.config.Dim)))
		flat, side := make([][]float32, len(logits)), logits[0].Shape().Dim(1)
		for head, tensor := range logits {
			flat[head] = tensors.MustCopyFlatData[float32](tensor)
			tensor.MustFinalizeAll()
		}
		try.E(datasets.EachImage(context.Background(), count, count, func(i int) (err error) {
			defer try.Handle(&err)
			a, one := try.E1(t.Frozen.Images.Read(which[done+i])), side*side*classes
			for head := range flat {
				try.E(show(done+i, a, head, heads.PredictPixels(flat[head][i*one:(i+1)*one], side, side, classes, a.Height, a.Width)))
			}
			return nil
		}))
	}
	return nil
}
