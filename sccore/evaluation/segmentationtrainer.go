package evaluation

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"
	"sync"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/panics"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/heads"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/optim"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/train"
	"golang.org/x/sync/errgroup"
)

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
	rates := make([]float32, len(c.LearningRates))
	for i, rate := range c.LearningRates {
		if c.Head.Kind == heads.FCN {
			rate = optim.Cosine(step, c.Steps, 0, rate, c.FinalLearningRate)
		}
		rates[i] = float32(rate)
	}
	return rates
}

// CropSource yields the crops of a step, counted from 0, as [FrozenFeatures.Crops] does: one batch.
type CropSource func(ctx context.Context, step int) iter.Seq2[Patches, error]

// SegmentationTrainer trains the heads of a [SegmentationConfig], one per learning rate. A step reports the heads' losses before its update. The step
// is compiled once and serves any number of runs.
type SegmentationTrainer struct {
	*train.Trainer[[]float32]
	// Crops yields what the run trains on.
	Crops CropSource
	// Frozen has the images that Evaluate and Predict segment, and computes their features.
	Frozen FrozenFeatures

	config SegmentationConfig
	logits *model.Exec
}

// NewSegmentationTrainer compiles the step. Call Begin first, also before Resume: checkpoints do not identify their run.
func NewSegmentationTrainer(b compute.Backend, config SegmentationConfig) (*SegmentationTrainer, error) {
	t := &SegmentationTrainer{config: config}
	var err error
	if t.Trainer, err = train.New(b, t.task()); err != nil {
		return nil, err
	}
	t.logits, err = model.NewExec(b, t.Store(), t.logitsGraph)
	return t, err
}

// Close frees the device's memory.
func (t *SegmentationTrainer) Close() {
	t.logits.Finalize()
	t.Trainer.Close()
}

// headScope is the scope of the variables of one head.
func headScope(scope *model.Scope, i int) *model.Scope { return scope.At("head%d", i) }

func (t *SegmentationTrainer) logitsGraph(scope *model.Scope, features *Node) []*Node {
	var all []*Node
	for i := range t.config.LearningRates {
		all = append(all, TransposeAllAxes(t.config.Head.Logits(headScope(scope, i), features), 2, 0, 1, 3))
	}
	return all
}

// Logits returns each head's logits for features, [batch, rows, columns, Dim] with any rows and columns: [batch, s·rows, s·columns, Classes], where s
// is 1 for linear heads and 8 for FCNs. Each new shape is compiled.
func (t *SegmentationTrainer) Logits(features *tensors.Tensor) (logits []*tensors.Tensor, err error) {
	err = caught(func() error {
		logits, err = t.logits.Call(features)
		return err
	})
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
	var losses []*Node
	for i := range t.config.LearningRates {
		losses = append(losses, t.config.Head.Loss(t.config.Head.Logits(headScope(scope, i), features), labels))
	}
	all := Stack(losses, 0)
	return ReduceAllSum(all), []train.Report[[]float32]{{Node: all, Read: func(losses *[]float32, _ train.At, value *tensors.Tensor) string {
		*losses = tensors.MustCopyFlatData[float32](value)
		for _, loss := range *losses {
			if x := float64(loss); !math.IsNaN(x) && !math.IsInf(x, 0) {
				return ""
			}
		}
		return fmt.Sprintf("the losses of the heads are %v", *losses)
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
	return func(yield func(train.Batch, error) bool) {
		for step := from; ; step++ {
			batch, err := t.batch(ctx, step)
			if !yield(batch, err) || err != nil {
				return
			}
		}
	}
}

func (t *SegmentationTrainer) batch(ctx context.Context, step int) (b train.Batch, err error) {
	if t.Crops == nil {
		return b, errors.New("segmentation: no crops to train on")
	}
	var x []float32
	var y []uint8
	for crop, err := range t.Crops(ctx, step) {
		if err != nil {
			return b, err
		}
		x, y = append(x, crop.Features...), append(y, crop.Labels...)
	}
	c, side := t.config, heads.Upsampling*t.config.Grid
	if len(x) != c.Batch*c.Grid*c.Grid*c.Dim || len(y) != c.Batch*side*side {
		return b, fmt.Errorf("segmentation: %d values and %d labels do not make %d crops", len(x), len(y), c.Batch)
	}
	b.Inputs = []any{tensors.FromFlatDataAndDimensions(x, c.Batch, c.Grid, c.Grid, c.Dim), tensors.FromFlatDataAndDimensions(y, c.Batch, side, side)}
	return b, nil
}

// evaluateBlock is the number of images whose logits are computed at once.
const evaluateBlock = 4

// Evaluate returns how well each head segments images at the full size of their annotation: logits are resized to it bilinearly
// (align_corners=false). features yields the features of the images in order, as [FrozenFeatures.Whole] does. It is an error if no pixel of the images is
// annotated.
func (t *SegmentationTrainer) Evaluate(which []int, features iter.Seq2[Patches, error]) ([]metrics.Segmentation, error) {
	confusions := make([]*metrics.Confusion, len(t.config.LearningRates))
	for i := range confusions {
		confusions[i] = metrics.NewConfusion(t.config.Head.Classes)
	}
	var mu sync.Mutex // Sums do not depend on the order.
	err := t.Predict(which, features, func(_ int, a *datasets.SegmentedImage, head int, classes []uint8) error {
		mu.Lock()
		defer mu.Unlock()
		return confusions[head].Add(a.Mask, classes)
	})
	if err != nil {
		return nil, err
	}
	var results []metrics.Segmentation
	for _, confusion := range confusions {
		result := confusion.Segmentation()
		if math.IsNaN(result.Accuracy) {
			return nil, errNotAnnotated
		}
		results = append(results, result)
	}
	return results, nil
}

// Predict calls show with what each head predicts for each image, in parallel: the image's place in which, the image, the head and the class of each
// pixel.
func (t *SegmentationTrainer) Predict(
	which []int, features iter.Seq2[Patches, error], show func(place int, a *datasets.SegmentedImage, head int, classes []uint8) error,
) error {
	var block []float32
	grid := t.Frozen.TestSize / t.Frozen.Extractor.ViT.PatchSize
	done := 0
	flush := func() error {
		count := len(block) / (grid * grid * t.config.Dim)
		block = append(block, make([]float32, evaluateBlock*grid*grid*t.config.Dim-len(block))...) // Another shape would compile again.
		logits, err := t.Logits(tensors.FromFlatDataAndDimensions(block, evaluateBlock, grid, grid, t.config.Dim))
		if err != nil {
			return err
		}
		flat, side := make([][]float32, len(logits)), logits[0].Shape().Dim(1)
		for head, tensor := range logits {
			flat[head] = tensors.MustCopyFlatData[float32](tensor)
			tensor.MustFinalizeAll()
		}
		var workers errgroup.Group
		for i := range count {
			workers.Go(func() error {
				return panics.Catch(func() error {
					a, err := t.Frozen.Images.Read(which[done+i])
					if err != nil {
						return err
					}
					one := side * side * t.config.Head.Classes
					for head := range flat {
						classes := heads.PredictPixels(flat[head][i*one:(i+1)*one], side, side, t.config.Head.Classes, a.Height, a.Width)
						if err := show(done+i, a, head, classes); err != nil {
							return err
						}
					}
					return nil
				})
			})
		}
		err = workers.Wait()
		done, block = done+count, block[:0]
		return err
	}
	for patches, err := range features {
		if err != nil {
			return err
		}
		if block = append(block, patches.Features...); len(block) == evaluateBlock*grid*grid*t.config.Dim {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if len(block) > 0 {
		return flush()
	}
	return nil
}
