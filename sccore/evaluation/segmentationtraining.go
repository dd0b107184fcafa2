package evaluation

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/heads"
	"github.com/semcon/semcon/sccore/optim"
	"github.com/semcon/semcon/sccore/weights"
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

// SegmentationTrainer trains the heads of a [SegmentationTraining], one for each rate. It is compiled once and serves any number of runs.
type SegmentationTrainer struct {
	config       SegmentationTraining
	store        *model.Store
	step, logits *model.Exec
	done         int
}

// NewSegmentationTrainer compiles the step. The first run starts with [SegmentationTrainer.Begin].
func NewSegmentationTrainer(b compute.Backend, config SegmentationTraining) (*SegmentationTrainer, error) {
	if err := config.Check(); err != nil {
		return nil, err
	}
	t := &SegmentationTrainer{config: config, store: model.NewStore()}
	err := caught(func() (err error) {
		if t.step, err = model.NewExec(b, t.store, t.stepGraph); err != nil {
			return err
		}
		side := heads.Upsampling * config.Grid
		_, err = t.step.Compile(shapes.Make(dtypes.Float32, config.Batch, config.Grid, config.Grid, config.Dim),
			shapes.Make(dtypes.Uint8, config.Batch, side, side), shapes.Make(dtypes.Float32, len(config.Rates)))
		if err != nil {
			return err
		}
		t.logits, err = model.NewExec(b, t.store, t.logitsGraph)
		return err
	})
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
	t.step.Finalize()
	t.logits.Finalize()
	t.store.Finalize()
}

// head is the scope of the variables of one head.
func (t *SegmentationTrainer) head(scope *model.Scope, i int) *model.Scope {
	return scope.At("head%d", i)
}

func (t *SegmentationTrainer) stepGraph(scope *model.Scope, inputs []*Node) *Node {
	features, labels, rates := inputs[0], TransposeAllAxes(inputs[1], 1, 2, 0), inputs[2]
	var losses []*Node
	for i := range t.config.Rates {
		head := t.head(scope, i)
		loss := t.config.Head.Loss(t.config.Head.Logits(head, features), labels)
		var learnt []*model.Variable
		var values []*Node
		for variable := range t.store.Scope(head.Scope()).IterVariables() {
			learnt, values = append(learnt, variable), append(values, variable.NodeValue(features))
		}
		rate := Reshape(Slice(rates, AxisElem(i)))
		// Without decay AdamW is Adam.
		optim.DefaultAdamW().Update(scope.At("adam%d", i), learnt, Gradient(loss, values...), rate, ZerosLike(rate))
		losses = append(losses, loss)
	}
	return Stack(losses, 0)
}

func (t *SegmentationTrainer) logitsGraph(scope *model.Scope, features *Node) []*Node {
	var all []*Node
	for i := range t.config.Rates {
		all = append(all, TransposeAllAxes(t.config.Head.Logits(t.head(scope, i), features), 2, 0, 1, 3))
	}
	return all
}

// Begin starts a run: weights are drawn by the seed, the same on every backend.
func (t *SegmentationTrainer) Begin(seed uint64) error {
	for variable := range t.store.IterVariables() {
		if err := variable.Reset(); err != nil {
			return err
		}
	}
	if err := t.store.SetRNGStateFromSeed(int64(seed)); err != nil {
		return err
	}
	host, err := backend.OpenConfig(backend.Go)
	if err != nil {
		return err
	}
	defer host.Finalize()
	if err := caught(func() error { return t.store.InitializeVariables(host, nil) }); err != nil {
		return err
	}
	for variable := range t.store.IterVariables() {
		value, err := variable.Value()
		if err != nil {
			return err
		}
		if err := value.ToLocal(); err != nil {
			return err
		}
	}
	t.done = 0
	return nil
}

// Done is the number of steps of the run that are done.
func (t *SegmentationTrainer) Done() int { return t.done }

// Step learns from a batch: features, [Batch, Grid, Grid, Dim], and labels, [Batch, 8·Grid, 8·Grid] of uint8, a class or [datasets.Ignore]. It
// returns the loss of each head before the step.
func (t *SegmentationTrainer) Step(features, labels *tensors.Tensor) (losses []float32, err error) {
	err = caught(func() error {
		out, err := t.step.Exec(features, labels, t.config.rates(t.done))
		if err != nil {
			return err
		}
		losses = tensors.MustCopyFlatData[float32](out[0])
		return out[0].FinalizeAll()
	})
	if err == nil {
		t.done++
	}
	return losses, err
}

// StepOn is [SegmentationTrainer.Step] on crops as [FixedFeatures.Crops] yields them, Batch of them.
func (t *SegmentationTrainer) StepOn(crops iter.Seq2[Patches, error]) (losses []float32, err error) {
	var x []float32
	var y []uint8
	for crop, err := range crops {
		if err != nil {
			return nil, err
		}
		x, y = append(x, crop.Features...), append(y, crop.Labels...)
	}
	c := t.config
	var features, labels *tensors.Tensor
	if err := caught(func() error { // Of another number of crops.
		features = tensors.FromFlatDataAndDimensions(x, c.Batch, c.Grid, c.Grid, c.Dim)
		labels = tensors.FromFlatDataAndDimensions(y, c.Batch, heads.Upsampling*c.Grid, heads.Upsampling*c.Grid)
		return nil
	}); err != nil {
		return nil, err
	}
	defer features.MustFinalizeAll()
	defer labels.MustFinalizeAll()
	return t.Step(features, labels)
}

// Logits returns the logits of each head for features, [batch, rows, columns, Dim] of any rows and columns: [batch, s·rows, s·columns, Classes],
// s being 1 for linear heads and 8 for FCNs. Each new shape compiles anew.
func (t *SegmentationTrainer) Logits(features *tensors.Tensor) (logits []*tensors.Tensor, err error) {
	err = caught(func() error {
		logits, err = t.logits.Exec(features)
		return err
	})
	return logits, err
}

// Save writes the state of the run to path, whole or not at all, with a note of the caller's.
func (t *SegmentationTrainer) Save(path, note string) error {
	done, err := json.Marshal(t.done)
	if err != nil {
		return err
	}
	return weights.SaveCheckpoint(path, t.store, map[string]string{"done": string(done), "note": note})
}

// Resume sets the state to what Save wrote and returns its note: training goes on as if it had never stopped. A run has begun before. The error
// names the file.
func (t *SegmentationTrainer) Resume(path string) (note string, err error) {
	metadata, err := weights.LoadCheckpoint(path, t.store)
	if err != nil {
		return "", err
	}
	var done int
	if err := json.Unmarshal([]byte(metadata["done"]), &done); err != nil || done < 0 || done > t.config.Steps {
		return "", errors.New(path + ": says nothing of how many steps are done")
	}
	t.done = done
	return metadata["note"], nil
}
