package sccore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/knn"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/optim"
)

// Data is what a run trains on: object-centric images, scenes, or one half of each batch of either.
type Data struct {
	Objects, Scenes datasets.Source
	// Neighbours of Objects, which positives are drawn from; needed for image concentration alone. See [Trainer.SetNeighbours].
	Neighbours *knn.Neighbours
	// Labels writes the label map of an image, 0 for no label, into canvas, [side, side], as Objects and Scenes write its pixels; scenes are
	// numbered behind all objects. Nil for images without labels. [Gauges].Classes looks at them; nothing learns from them but with
	// correspondences from labels.
	Labels func(image int32, canvas []uint8, side int) error

	Workers int             // Images decoded at once; 0 for one a processor. It changes nothing else.
	Broken  datasets.Broken // What becomes of an image that cannot be read.
}

// Trainer trains an encoder with the paper's method. One compiled step serves any number of runs; what a run does depends on its
// configuration, data and seed alone, and on the backend. It is not for use by several goroutines at once.
type Trainer struct {
	// Skipped is told of each image that could not be read, unless it is nil.
	Skipped func(datasets.Skipped)

	config  Config
	data    Data
	step    step
	backend compute.Backend
	store   *model.Store

	part    *model.Exec // Forward and backward, and the update unless a batch comes in parts.
	update  *model.Exec // The update of a batch in parts, else nil.
	reports []string    // What part returns, in order.

	seed  uint64
	done  int    // Steps of the run that are done.
	saved string // The last checkpoint of the run.
	next  func() (*datasets.Batch, error, bool)
	stop  func()
}

// ErrDiverged says that a run's loss or gradient left the numbers. The weights are lost; checkpoints are good.
var ErrDiverged = errors.New("the loss diverged")

// NewTrainer compiles the step of a configuration. The error names what is out of range or missing.
func NewTrainer(b compute.Backend, data Data, config Config) (*Trainer, error) {
	if err := config.Check(); err != nil {
		return nil, err
	}
	t := &Trainer{config: config, data: data, backend: b, store: model.NewStore()}
	if err := t.mixture().Check(); err != nil {
		return nil, err
	}
	switch part := config.Batch / config.Accumulate; {
	case data.Objects == nil && (config.hasImageLoss() || config.Lambdas.Prototypes > 0):
		return nil, errors.New("lambdas: losses of images and prototypes are of object-centric images, and there are none")
	case config.fromLabels() && data.Labels == nil:
		return nil, errors.New("correspondences.from labels: the images have none")
	case data.Objects != nil && data.Scenes != nil && part%2 != 0:
		return nil, fmt.Errorf("batch %d in %d parts has no halves for objects and scenes", config.Batch, config.Accumulate)
	}
	t.step = newStep(config, data.Objects != nil, data.Scenes != nil, data.Labels != nil)
	return t, t.compile()
}

// Close frees the device's memory and ends the reading of images.
func (t *Trainer) Close() {
	t.rewind()
	t.part.Finalize()
	if t.update != nil {
		t.update.Finalize()
	}
	t.store.Finalize()
}

// Config is the configuration of the run.
func (t *Trainer) Config() Config { return t.config }

// Configure sets another configuration for the runs to come, which has to share the compiled step: schedules, steps, looks of views, the
// share of noise, and λ that are not 0 may differ. Others are an error.
func (t *Trainer) Configure(config Config) error {
	if err := config.Check(); err != nil {
		return err
	}
	if config.shape() != t.config.shape() {
		return errors.New("this configuration needs another compiled step")
	}
	t.config = config
	t.rewind()
	return nil
}

// compile builds and compiles the step, which makes its variables.
func (t *Trainer) compile() (err error) {
	caught := exceptions.TryCatch[error](func() {
		if t.part, err = model.NewExec(t.backend, t.store, t.partGraph); err != nil {
			return
		}
		var inputs []shapes.Shape
		for _, in := range t.step.inputs() {
			inputs = append(inputs, in.shape)
		}
		if _, err = t.part.Compile(inputs...); err != nil || t.config.Accumulate == 1 {
			return
		}
		if t.update, err = model.NewExec(t.backend, t.store, t.updateGraph); err == nil {
			_, err = t.update.Compile(inputs[len(inputs)-1])
		}
	})
	if caught != nil {
		return caught
	}
	return err
}

// partGraph is the graph of a batch, or of a part of it. It returns the reports in the order of their names.
func (t *Trainer) partGraph(scope *model.Scope, inputs []*Node) []*Node {
	named := map[string]*Node{}
	for i, in := range t.step.inputs() {
		named[in.name] = inputs[i]
	}
	gradients, reports := t.step.backward(scope, named)
	if t.config.Accumulate > 1 {
		optim.Accumulate(scope.At(accumulatedScope), learnt(scope), gradients)
	} else {
		reports[reportGradientNorm] = t.step.update(scope, gradients, readScheduled(named[inScheduled]))
	}
	t.reports = slices.Sorted(maps.Keys(reports))
	var out []*Node
	for _, name := range t.reports {
		out = append(out, reports[name])
	}
	return out
}

// updateGraph is the update after all parts of a batch. It returns the length of the gradient.
func (t *Trainer) updateGraph(scope *model.Scope, scheduled *Node) *Node {
	gradients := optim.Accumulated(scope.At(accumulatedScope), scheduled.Graph(), learnt(scope), t.config.Accumulate)
	return t.step.update(scope, gradients, readScheduled(scheduled))
}

// SetNeighbours sets the neighbours that the runs to come draw positives from: they are often found with an earlier run's features.
func (t *Trainer) SetNeighbours(neighbours *knn.Neighbours) { t.data.Neighbours = neighbours }

// Begin sets the weights of both branches to the initial values of a seed, the same on every backend, and the run to step 0.
func (t *Trainer) Begin(seed uint64) error {
	if t.step.positives() > 0 {
		switch n := t.data.Neighbours; {
		case n == nil:
			return errors.New("lambdas.image_concentration: there are no neighbours to draw positives from")
		case len(n.Indices) != n.K*t.data.Objects.Len():
			return fmt.Errorf("neighbours of %d images, there are %d object-centric ones", len(n.Indices)/max(n.K, 1), t.data.Objects.Len())
		}
	}
	for variable := range t.store.IterVariables() {
		if err := variable.Reset(); err != nil {
			return err
		}
		// The target branch is a copy and must draw nothing: graphs that others build on it give its variables initializers of their own.
		if strings.HasPrefix(variable.Path(), "/"+targetScope+"/") {
			if err := variable.SetValue(tensors.FromShape(variable.Shape())); err != nil {
				return err
			}
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
	if caught := exceptions.TryCatch[error](func() { err = t.store.InitializeVariables(host, nil) }); caught != nil {
		return caught
	}
	if err != nil {
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
	t.seed, t.done, t.saved = seed, 0, ""
	t.rewind()
	return t.copyBranch(onlineScope, targetScope)
}

// copyBranch sets the variables of one branch to the values of the other's.
func (t *Trainer) copyBranch(from, to string) error {
	for variable := range t.store.Scope("/" + to).IterVariables() {
		value, err := t.store.GetVariable("/" + from + variable.Path()[len("/"+to):]).Value()
		if err != nil {
			return err
		}
		if value, err = value.LocalClone(); err != nil {
			return err
		}
		if err := variable.SetValue(value); err != nil {
			return err
		}
	}
	return nil
}

// Done is the number of steps of the run that are done.
func (t *Trainer) Done() int { return t.done }

// mixture reads the parts of batches, one a step of its own.
func (t *Trainer) mixture() datasets.Mixture {
	m := datasets.Mixture{
		Objects: t.data.Objects, Scenes: t.data.Scenes, Batch: t.config.Batch / t.config.Accumulate, Side: t.config.Canvas,
		Seed: t.seed, Workers: t.data.Workers, Broken: t.data.Broken,
	}
	if t.step.positives() > 0 {
		m.Positive = t.data.Neighbours.Positive(t.seed)
	}
	return m
}

// rewind ends the reading of images, which goes on from the run's position at the next step.
func (t *Trainer) rewind() {
	if t.stop != nil {
		t.stop()
	}
	t.next, t.stop = nil, nil
}

// Step trains one step. When ctx has ended it does nothing but return ctx's error. An [ErrDiverged] names the last good checkpoint.
func (t *Trainer) Step(ctx context.Context) (Gauges, error) {
	if err := ctx.Err(); err != nil {
		return Gauges{}, err
	}
	if t.next == nil {
		// What is read ahead belongs to the trainer and not to this call, so its end is not ctx's.
		t.next, t.stop = iter.Pull2(t.mixture().Batches(context.WithoutCancel(ctx), t.done*t.config.Accumulate))
	}
	rate, decay, momentum := t.config.schedule(t.done)
	l := t.config.Lambdas
	scheduled := []float32{float32(rate), float32(decay), float32(momentum),
		float32(l.PatchAlignment), float32(l.ImageAlignment), float32(l.PatchConcentration), float32(l.ImageConcentration), float32(l.Prototypes),
		float32(t.config.Correspondences.Noise)}
	gauges := Gauges{Step: t.done + 1, Rate: rate}
	for part := range t.config.Accumulate {
		batch, err, _ := t.next()
		if err != nil {
			t.rewind()
			return Gauges{}, err
		}
		if t.Skipped != nil {
			for _, skipped := range batch.Skipped {
				t.Skipped(skipped)
			}
		}
		inputs, err := t.inputs(t.step, batch, scheduled)
		if err != nil {
			return Gauges{}, err
		}
		// Spreads are those of the step's first part.
		spreads := part == 0 && gauges.Step%t.config.GaugeEvery == 0
		if err := t.run(t.part, inputs, func(out []*tensors.Tensor) { t.read(&gauges, out, spreads) }); err != nil {
			return Gauges{}, err
		}
	}
	if t.update != nil {
		err := t.run(t.update, []any{scheduled}, func(out []*tensors.Tensor) {
			gauges.set(reportGradientNorm, float64(tensors.ToScalar[float32](out[0])))
		})
		if err != nil {
			return Gauges{}, err
		}
	}
	if !gauges.finite() {
		state := "there is no checkpoint yet"
		if t.saved != "" {
			state = "the last good checkpoint is " + t.saved
		}
		return gauges, fmt.Errorf("%w: it is %g and its gradient %g at step %d; %s", ErrDiverged, gauges.Total, gauges.GradientNorm, gauges.Step, state)
	}
	t.done++
	return gauges, nil
}

// run executes a graph, shows its outputs and frees them.
func (t *Trainer) run(exec *model.Exec, inputs []any, show func(out []*tensors.Tensor)) (err error) {
	caught := exceptions.TryCatch[error](func() {
		var out []*tensors.Tensor
		if out, err = exec.Exec(inputs...); err != nil {
			return
		}
		show(out)
		for _, tensor := range out {
			tensor.MustFinalizeAll()
		}
	})
	if caught != nil {
		return caught
	}
	return err
}

// read adds a part's reports to the gauges.
func (t *Trainer) read(gauges *Gauges, out []*tensors.Tensor, spreads bool) {
	for i, name := range t.reports {
		switch {
		case name == reportClassSpread && spreads:
			gauges.Class = metrics.SpreadOf(out[i])
		case name == reportPatchSpread && spreads:
			gauges.Patches = metrics.SpreadOf(out[i])
		case name == reportSpreadOfClasses && spreads:
			parts := tensors.MustCopyFlatData[float32](out[i])
			gauges.Classes = &metrics.ClassSpread{Within: float64(parts[0]), Between: float64(parts[1])}
		case out[i].Shape().IsScalar():
			gauges.set(name, float64(tensors.ToScalar[float32](out[i]))/float64(t.config.Accumulate))
		}
	}
}

// Branch is one of the two branches.
type Branch string

// The branches.
const (
	Online Branch = onlineScope
	Target Branch = targetScope
)

// Encoder gives the encoder of a branch where it stands: its store, the scope of its variables in it, and what it is. Later steps
// change it.
func (t *Trainer) Encoder(branch Branch) (vit encoder.ViT, store *model.Store, scope string) {
	return t.step.vit, t.store, "/" + string(branch) + "/" + encoderScope
}
