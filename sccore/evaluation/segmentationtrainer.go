package evaluation

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"strconv"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"
	"github.com/semcon/semcon/sccore/heads"
	"github.com/semcon/semcon/sccore/optim"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/train"
)

// SegmentationConfig says how heads are trained on the features of a frozen encoder (paper, appendix "Transfer Learning on Semantic Segmentation",
// "Optimization strategy"). The paper searches the learning rate over four values: one head per value is trained on the same crops, so that features
// are computed once for all of them.
type SegmentationConfig struct {
	Head              heads.Segmentation
	Dim, Grid         int       // The length of a feature, and the patches along each side of a crop.
	Batch             int       // Crops per step.
	Steps             int       // For each head.
	LearningRates     []float64 // Adam's, one per head; constant for the linear head.
	FinalLearningRate float64   // The end of the FCN's cosine schedule.
}

// Check returns an error that names the first setting that is out of range.
func (c SegmentationConfig) Check() error {
	if err := c.Head.Check(); err != nil {
		return err
	}
	if err := cmp.Or(
		settings.Between("dim", c.Dim, 1, 1<<14), settings.Between("grid", c.Grid, 1, settings.MaxImageSize), settings.Between("batch", c.Batch, 1, 1<<14),
		settings.Between("steps", c.Steps, 1, math.MaxInt32), settings.Between("number of rates", len(c.LearningRates), 1, 64),
	); err != nil {
		return fmt.Errorf("segmentation: %w", err)
	}
	for _, rate := range c.LearningRates {
		if err := cmp.Or(settings.Above("rates: learning rate", rate, maxRate), settings.Above("final_rate: learning rate", c.FinalLearningRate, maxRate)); err != nil {
			return fmt.Errorf("segmentation: %w", err)
		}
	}
	return nil
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

	config SegmentationConfig
	logits *model.Exec
}

// segmentationObjective is the sum of the heads' losses; each head has its own optimizer.
type segmentationObjective struct {
	of    *SegmentationTrainer
	batch [2]*tensors.Tensor // Features and labels of the current step.
}

// NewSegmentationTrainer compiles the step. Call Begin first, also before Resume: checkpoints do not identify their run.
func NewSegmentationTrainer(b compute.Backend, config SegmentationConfig) (*SegmentationTrainer, error) {
	if err := config.Check(); err != nil {
		return nil, err
	}
	t := &SegmentationTrainer{config: config}
	var err error
	if t.Trainer, err = train.New(b, &segmentationObjective{of: t}); err != nil {
		return nil, err
	}
	t.logits, err = model.NewExec(b, t.Store(), t.logitsGraph)
	return t, err
}

// caught runs f and returns a panic of graph building as an error.
func caught(f func() error) (err error) {
	if panicked := exceptions.TryCatch[error](func() { err = f() }); panicked != nil {
		return panicked
	}
	return err
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

// Steps is the number of steps of a run.
func (o *segmentationObjective) Steps() int { return o.of.config.Steps }

// Shapes are the shapes of features, [Batch, Grid, Grid, Dim]; labels, [Batch, 8·Grid, 8·Grid] of uint8, a class or [datasets.Ignore]; and learning
// rates.
func (o *segmentationObjective) Shapes() []shapes.Shape {
	c := o.of.config
	side := heads.Upsampling * c.Grid
	return []shapes.Shape{
		shapes.Make(dtypes.Float32, c.Batch, c.Grid, c.Grid, c.Dim), shapes.Make(dtypes.Uint8, c.Batch, side, side), shapes.Make(dtypes.Float32, len(c.LearningRates)),
	}
}

// Divided divides crops over devices.
func (o *segmentationObjective) Divided() []bool { return []bool{true, true, false} }

// Graph returns the losses.
func (o *segmentationObjective) Graph(scope *model.Scope, inputs []*Node) []*Node {
	features, labels, rates := inputs[0], TransposeAllAxes(inputs[1], 1, 2, 0), inputs[2]
	var losses []*Node
	for i := range o.of.config.LearningRates {
		head := headScope(scope, i)
		loss := o.of.config.Head.Loss(o.of.config.Head.Logits(head, features), labels)
		var learnt []*model.Variable
		var values []*Node
		for variable := range scope.Store().Scope(head.Scope()).IterVariables() {
			learnt, values = append(learnt, variable), append(values, variable.NodeValue(features))
		}
		rate := Reshape(Slice(rates, AxisElem(i)))
		// Without weight decay AdamW is Adam.
		optim.DefaultAdamW().Update(scope.At("adam%d", i), learnt, Gradient(loss, values...), rate, ZerosLike(rate))
		losses = append(losses, loss)
	}
	return []*Node{Stack(losses, 0)}
}

// Inputs gathers the crops of a step.
func (o *segmentationObjective) Inputs(ctx context.Context, at train.At) ([]any, error) {
	if o.of.Crops == nil {
		return nil, errors.New("segmentation: no crops to train on")
	}
	var x []float32
	var y []uint8
	for crop, err := range o.of.Crops(ctx, at.Step) {
		if err != nil {
			return nil, err
		}
		x, y = append(x, crop.Features...), append(y, crop.Labels...)
	}
	all := o.Shapes()
	if len(x) != all[0].Size() || len(y) != all[1].Size() {
		return nil, fmt.Errorf("segmentation: %d values and %d labels do not make %d crops", len(x), len(y), o.of.config.Batch)
	}
	o.batch = [2]*tensors.Tensor{tensors.FromFlatDataAndDimensions(x, all[0].Dimensions...), tensors.FromFlatDataAndDimensions(y, all[1].Dimensions...)}
	return []any{o.batch[0], o.batch[1], o.of.config.rates(at.Step)}, nil
}

// Metrics reads the losses and frees the batch, which is large.
func (o *segmentationObjective) Metrics(losses *[]float32, _ train.At, outputs []*tensors.Tensor) {
	*losses = tensors.MustCopyFlatData[float32](outputs[0])
	for _, tensor := range o.batch {
		tensor.MustFinalizeAll()
	}
}

// Diverged requires one finite loss: the other learning rates may be too high.
func (o *segmentationObjective) Diverged(losses []float32) string {
	for _, loss := range losses {
		if x := float64(loss); !math.IsNaN(x) && !math.IsInf(x, 0) {
			return ""
		}
	}
	return fmt.Sprintf("the losses of the heads are %v", losses)
}

// Metadata writes the number of steps done.
func (o *segmentationObjective) Metadata(at train.Position) (map[string]string, error) {
	return map[string]string{"done": strconv.Itoa(at.Done)}, nil
}

// Restore reads it.
func (o *segmentationObjective) Restore(metadata map[string]string, begun train.Position) (at train.Position, err error) {
	at = begun
	if err := json.Unmarshal([]byte(metadata["done"]), &at.Done); err != nil || at.Done < 0 || at.Done > o.of.config.Steps {
		return begun, errors.New("no number of steps in the file")
	}
	return at, nil
}
