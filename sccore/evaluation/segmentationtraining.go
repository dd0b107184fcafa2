package evaluation

import (
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
	"github.com/semcon/semcon/sccore/train"
)

// SegmentationTraining is how heads learn on the fixed features of a frozen encoder (paper, appendix "Transfer Learning on Semantic
// Segmentation", "Optimization strategy"). The paper searches the learning rate over four values: a head for each of them learns on the same
// crops, so that features are computed once for all.
type SegmentationTraining struct {
	Head      heads.Segmentation
	Dim, Grid int       // The length of a feature, and the patches along each side of a crop.
	Batch     int       // Crops a step.
	Steps     int       // Of each head.
	Rates     []float64 // Of Adam; constant for the linear head.
	FinalRate float64   // That the FCN's rates fall to on half a cosine.
}

// Check returns an error that names the first setting out of range.
func (c SegmentationTraining) Check() error {
	if err := c.Head.Check(); err != nil {
		return err
	}
	for _, count := range []struct {
		name  string
		value int
	}{{"dim", c.Dim}, {"grid", c.Grid}, {"batch", c.Batch}, {"steps", c.Steps}, {"number of rates", len(c.Rates)}} {
		if count.value < 1 {
			return fmt.Errorf("segmentation: %s %d is not positive", count.name, count.value)
		}
	}
	for _, rate := range append([]float64{c.FinalRate}, c.Rates...) {
		if !(rate > 0) || math.IsInf(rate, 0) {
			return fmt.Errorf("segmentation: learning rate %g is not positive", rate)
		}
	}
	return nil
}

// rates are those of a step, one a head.
func (c SegmentationTraining) rates(step int) []float32 {
	rates := make([]float32, len(c.Rates))
	for i, rate := range c.Rates {
		if c.Head.Kind == heads.FCN {
			rate = optim.Cosine(step, c.Steps, 0, rate, c.FinalRate)
		}
		rates[i] = float32(rate)
	}
	return rates
}

// CropSource yields the crops of a step, from 0, as [FixedFeatures.Crops] makes them: as many as a batch has.
type CropSource func(ctx context.Context, step int) iter.Seq2[Patches, error]

// SegmentationTrainer trains the heads of a [SegmentationTraining], one for each rate; a step reports their losses before it. It is compiled
// once and serves any number of runs.
type SegmentationTrainer struct {
	*train.Trainer[[]float32]
	// Crops are what the run learns from.
	Crops CropSource

	config SegmentationTraining
	logits *model.Exec
}

// segmentationObjective is the losses of the heads, each with its own optimizer.
type segmentationObjective struct {
	of    *SegmentationTrainer
	batch [2]*tensors.Tensor // Features and labels of the present step.
}

// NewSegmentationTrainer compiles the step. The first run starts with Begin, also one that is resumed: checkpoints do not say which run they
// are of.
func NewSegmentationTrainer(b compute.Backend, config SegmentationTraining) (*SegmentationTrainer, error) {
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

// caught runs f and turns a panic of graph building into an error.
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
	for i := range t.config.Rates {
		all = append(all, TransposeAllAxes(t.config.Head.Logits(headScope(scope, i), features), 2, 0, 1, 3))
	}
	return all
}

// Logits returns the logits of each head for features, [batch, rows, columns, Dim] of any rows and columns: [batch, s·rows, s·columns, Classes],
// s being 1 for linear heads and 8 for FCNs. Each new shape compiles anew.
func (t *SegmentationTrainer) Logits(features *tensors.Tensor) (logits []*tensors.Tensor, err error) {
	err = caught(func() error {
		logits, err = t.logits.Call(features)
		return err
	})
	return logits, err
}

// Steps is the number of steps of a run.
func (o *segmentationObjective) Steps() int { return o.of.config.Steps }

// Shapes are those of features, [Batch, Grid, Grid, Dim]; labels, [Batch, 8·Grid, 8·Grid] of uint8, a class or [datasets.Ignore]; and rates.
func (o *segmentationObjective) Shapes() []shapes.Shape {
	c := o.of.config
	side := heads.Upsampling * c.Grid
	return []shapes.Shape{
		shapes.Make(dtypes.Float32, c.Batch, c.Grid, c.Grid, c.Dim), shapes.Make(dtypes.Uint8, c.Batch, side, side), shapes.Make(dtypes.Float32, len(c.Rates)),
	}
}

// Graph returns the losses.
func (o *segmentationObjective) Graph(scope *model.Scope, inputs []*Node) []*Node {
	features, labels, rates := inputs[0], TransposeAllAxes(inputs[1], 1, 2, 0), inputs[2]
	var losses []*Node
	for i := range o.of.config.Rates {
		head := headScope(scope, i)
		loss := o.of.config.Head.Loss(o.of.config.Head.Logits(head, features), labels)
		var learnt []*model.Variable
		var values []*Node
		for variable := range scope.Store().Scope(head.Scope()).IterVariables() {
			learnt, values = append(learnt, variable), append(values, variable.NodeValue(features))
		}
		rate := Reshape(Slice(rates, AxisElem(i)))
		// Without decay AdamW is Adam.
		optim.DefaultAdamW().Update(scope.At("adam%d", i), learnt, Gradient(loss, values...), rate, ZerosLike(rate))
		losses = append(losses, loss)
	}
	return []*Node{Stack(losses, 0)}
}

// Inputs gathers the crops of a step.
func (o *segmentationObjective) Inputs(ctx context.Context, at train.At) ([]any, error) {
	if o.of.Crops == nil {
		return nil, errors.New("segmentation: there are no crops to learn from")
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
		return nil, fmt.Errorf("segmentation: %d numbers and %d labels are not %d crops", len(x), len(y), o.of.config.Batch)
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

// Diverged wants one finite loss: the others are of rates that are too high.
func (o *segmentationObjective) Diverged(losses []float32) string {
	for _, loss := range losses {
		if x := float64(loss); !math.IsNaN(x) && !math.IsInf(x, 0) {
			return ""
		}
	}
	return fmt.Sprintf("the losses of the heads are %v", losses)
}

// Metadata is the number of steps that are done.
func (o *segmentationObjective) Metadata(at train.Position) (map[string]string, error) {
	return map[string]string{"done": strconv.Itoa(at.Done)}, nil
}

// Restore reads it.
func (o *segmentationObjective) Restore(metadata map[string]string, begun train.Position) (at train.Position, err error) {
	at = begun
	if err := json.Unmarshal([]byte(metadata["done"]), &at.Done); err != nil || at.Done < 0 || at.Done > o.of.config.Steps {
		return begun, errors.New("says nothing of how many steps are done")
	}
	return at, nil
}
