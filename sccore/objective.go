package sccore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/optim"
	"github.com/semcon/semcon/sccore/train"
)

// Objective is the method as package train takes it: the graph of its step, and the batches.
type Objective struct {
	config  Config // The current run's; the step is compiled for a configuration of the same shape.
	data    Data
	step    step
	skipped func(datasets.Skipped)
	reports []string // The names of Graph's outputs, in order.
	given   []any    // The inputs of the part that runs.
	// The weights that [ByGradient] has set for the run; nil for those of the configuration.
	measured *losses.Lambdas

	batches datasets.Ahead[prepared]
	device  compute.Backend // Where batches are uploaded to ahead; nil leaves that to the step.
}

// prepared are the inputs of a part of a step, without the scheduled ones, which may depend on the step before.
type prepared struct {
	inputs  []any
	skipped []datasets.Skipped
}

// NewObjective returns the objective of a configuration. The error names what is out of range or missing.
func NewObjective(data Data, config Config) (*Objective, error) {
	if err := config.Check(); err != nil {
		return nil, err
	}
	o := &Objective{config: config, data: data}
	if err := o.mixture(0).Check(); err != nil {
		return nil, err
	}
	switch part := config.Batch / config.AccumulationSteps; {
	case data.Objects == nil && (config.hasImageLoss() || config.Lambdas.Prototypes > 0):
		return nil, errors.New("lambdas: losses of images and prototypes need object-centric images")
	case config.fromLabels() && data.Labels == nil:
		return nil, errors.New("correspondences.from labels: the images have no labels")
	case data.Objects != nil && data.Scenes != nil && part%2 != 0:
		return nil, fmt.Errorf("batch %d in %d parts cannot be halved into objects and scenes", config.Batch, config.AccumulationSteps)
	}
	o.step = newStep(config, data.Objects != nil, data.Scenes != nil, data.Labels != nil)
	o.step.taught = data.TeacherLabels != nil && config.fromLabels()
	return o, nil
}

// Steps is the number of steps of a run.
func (o *Objective) Steps() int { return o.config.Steps }

// Workload counts a step from the configuration: transformers and heads of both branches, and of a teacher that does not train. Views and losses are not
// counted, which model FLOP utilisation leaves out.
func (o *Objective) Workload() train.Workload {
	s := o.step
	patches := func(side int) int { return (side / s.vit.PatchSize) * (side / s.vit.PatchSize) }
	view := func(side int, object bool) float64 {
		flops := s.vit.FLOPs(patches(side))
		if object && s.hasImageLoss() {
			flops += s.ImageHead.FLOPs(s.vit.Dim)
		}
		if s.hasPatchLoss() {
			flops += float64(patches(side)) * s.PatchHead.FLOPs(s.vit.Dim)
		}
		return flops
	}
	views := func(object bool) (globals, locals float64) {
		return float64(s.Views.Globals) * view(s.Views.GlobalCropSize, object), float64(s.Views.Locals) * view(s.Views.LocalCropSize, object)
	}
	total := 0.0
	for object, images := range map[bool]int{true: s.objects, false: s.images() - s.objects} {
		globals, locals := views(object)
		const backward = 2 // Gradients of both factors of each product.
		total += float64(images) * ((1+backward)*(globals+locals) + globals)
		if s.Lambdas.PatchConcentration > 0 && s.fromTeacher() {
			total += float64(images*s.Views.Globals) * s.teacher().vit.FLOPs(patches(s.Views.GlobalCropSize))
		}
	}
	total += float64(s.positives()) * view(s.Views.GlobalCropSize, true)
	return train.Workload{Images: o.config.Batch, FLOPs: float64(o.Parts()) * total, BFloat16: s.vit.ComputeDType.IsHalfPrecision()}
}

// Parts is the number of parts that a batch is computed in.
func (o *Objective) Parts() int { return o.config.AccumulationSteps }

// Shapes are the shapes of the inputs of one part of a step.
func (o *Objective) Shapes() []shapes.Shape { return o.step.shapes() }

// Divided divides images and views over devices, and what belongs to each of them.
func (o *Objective) Divided() []bool { return o.step.divided() }

// Graph computes a batch, or one part of it: forward and backward, and the update unless the batch comes in parts.
func (o *Objective) Graph(scope *model.Scope, inputs []*Node) []*Node {
	named := o.step.named(inputs)
	gradients, reports := o.step.backward(scope, named)
	if o.Parts() > 1 {
		optim.Accumulate(scope.At(accumulatedScope), learnt(scope), gradients)
	} else {
		reports[reportGradientNorm] = o.step.update(scope, gradients, readScheduled(named[inScheduled]))
	}
	o.reports = slices.Sorted(maps.Keys(reports))
	var out []*Node
	for _, name := range o.reports {
		out = append(out, reports[name])
	}
	return out
}

// UpdateShapes are the shapes of the inputs of Update.
func (o *Objective) UpdateShapes() []shapes.Shape {
	all := o.Shapes()
	return all[len(all)-1:]
}

// Update applies the gradients of all parts of a batch. It returns the norm of the gradient.
func (o *Objective) Update(scope *model.Scope, inputs []*Node) []*Node {
	scheduled := inputs[0]
	gradients := optim.Accumulated(scope.At(accumulatedScope), scheduled.Graph(), learnt(scope), o.Parts())
	return []*Node{o.step.update(scope, gradients, readScheduled(scheduled))}
}

// Initialize gives both branches the same initial values.
func (o *Objective) Initialize(store *model.Store, seed uint64) error {
	if err := train.Initialize(store, seed, "/"+targetScope, "/"+teacherScope); err != nil {
		return err
	}
	return train.CopyScope(store, "/"+onlineScope, "/"+targetScope)
}

// Inputs reads the batch of a part of a step and draws its views.
func (o *Objective) Inputs(ctx context.Context, at train.At) ([]any, error) {
	scheduled := o.scheduled(at.Step)
	if at.Part > 0 && at.Part == o.Parts() {
		return []any{scheduled}, nil
	}
	batch, err := o.batch(ctx, at)
	if err != nil {
		return nil, err
	}
	if o.skipped != nil {
		for _, skipped := range batch.skipped {
			o.skipped(skipped)
		}
	}
	o.given = append(batch.inputs[:len(batch.inputs)-1], scheduled)
	return o.given, nil
}

// scheduled are the scalars of [inScheduled] at a step.
func (o *Objective) scheduled(step int) []float32 {
	rate, decay, momentum := o.config.schedule(step)
	scheduled := []float32{float32(rate), float32(decay), float32(momentum)}
	l := o.lambdas()
	for _, lambda := range each(&l) {
		scheduled = append(scheduled, float32(*lambda))
	}
	return append(scheduled, float32(o.config.Correspondences.Noise))
}

// Metrics reads the reports of a part or of the update. Losses are the mean over parts; spreads are those of the first part. It frees the batch, which is
// large: a device's memory would wait for Go's garbage collector, which does not see it.
func (o *Objective) Metrics(m *StepMetrics, at train.At, outputs []*tensors.Tensor) {
	if at.Part > 0 && at.Part == o.Parts() {
		m.set(reportGradientNorm, float64(tensors.ToScalar[float32](outputs[0])))
		return
	}
	train.Free(o.given)
	o.given = nil
	m.Step = at.Step + 1
	m.LearningRate, _, _ = o.config.schedule(at.Step)
	m.Lambdas = o.measured
	spreads := at.Part == 0 && m.Step%o.config.MetricsEvery == 0
	for i, name := range o.reports {
		switch {
		case name == reportClassSpread && spreads:
			m.Class = metrics.SpreadOf(outputs[i])
		case name == reportPatchSpread && spreads:
			m.Patches = metrics.SpreadOf(outputs[i])
		case name == reportSpreadOfClasses && spreads:
			parts := tensors.MustCopyFlatData[float32](outputs[i])
			m.Classes = &metrics.ClassSpread{Within: float64(parts[0]), Between: float64(parts[1])}
		case outputs[i].Shape().IsScalar():
			m.set(name, float64(tensors.ToScalar[float32](outputs[i]))/float64(o.Parts()))
		}
	}
}

// Diverged looks at the loss and at the norm of its gradient.
func (o *Objective) Diverged(m StepMetrics) string {
	if m.finite() {
		return ""
	}
	return fmt.Sprintf("it is %g and its gradient %g", m.Total, m.GradientNorm)
}

// Metadata adds the configuration to the position of a run. Order, views and everything else that is drawn depend on the seed and the step alone.
func (o *Objective) Metadata(at train.Position) (map[string]string, error) {
	position, err := json.Marshal(at)
	if err != nil {
		return nil, err
	}
	config, err := json.Marshal(o.config)
	if err != nil {
		return nil, err
	}
	metadata := map[string]string{"position": string(position), "config": string(config)}
	return metadata, o.saveLambdas(metadata)
}

// Restore requires the configuration to be that of the run.
func (o *Objective) Restore(metadata map[string]string, _ train.Position) (at train.Position, err error) {
	if err := json.Unmarshal([]byte(metadata["position"]), &at); err != nil {
		return at, fmt.Errorf("position in the run: %w", err)
	}
	config := o.config
	if err := json.Unmarshal([]byte(metadata["config"]), &config); err != nil {
		return at, fmt.Errorf("configuration of the run: %w", err)
	}
	if config != o.config {
		return at, errors.New("belongs to a run with another configuration")
	}
	return at, o.restoreLambdas(metadata)
}

// mixture reads the parts of a run's batches, one per step.
func (o *Objective) mixture(seed uint64) datasets.Loader {
	m := datasets.Loader{
		Objects: o.data.Objects, Scenes: o.data.Scenes, BatchSize: o.config.Batch / o.config.AccumulationSteps, ImageSize: o.config.ImageSize,
		Seed: seed, Workers: o.data.Workers, Broken: o.data.Broken,
	}
	if o.step.positives() > 0 {
		m.Positive = o.data.Neighbours.Positive(seed)
	}
	return m
}

// batch returns the batch of a part of a step. The following ones are read, made inputs and uploaded meanwhile.
func (o *Objective) batch(ctx context.Context, at train.At) (prepared, error) {
	return o.batches.Batch(ctx, o.mixture(at.Seed), at.Step*o.Parts()+at.Part, func(batch *datasets.Batch) (prepared, error) {
		inputs, err := o.inputs(o.step, batch, at.Seed, nil)
		if err == nil {
			err = train.Upload(o.device, inputs, o.Divided())
		}
		return prepared{inputs, batch.Skipped}, err
	})
}

// rewind stops reading images; the next step starts again.
func (o *Objective) rewind() { o.batches.Stop() }

// StepMetrics are what a training step reports. A loss that is off is 0.
type StepMetrics struct {
	Step         int     `json:"step"` // Steps done, including this one.
	LearningRate float64 `json:"rate"` // The one this step used.

	// Evaluated are the values of evaluators that ran behind the step, as "evaluator/value".
	Evaluated map[string]float64 `json:"evaluated,omitempty"`

	Total              float64 `json:"total"` // The sum of the losses, each times its λ.
	PatchAlignment     float64 `json:"patch_alignment,omitempty"`
	ImageAlignment     float64 `json:"image_alignment,omitempty"`
	PatchConcentration float64 `json:"patch_concentration,omitempty"`
	ImageConcentration float64 `json:"image_concentration,omitempty"`
	Prototypes         float64 `json:"prototypes,omitempty"`

	// Lambdas are the weights that [ByGradient] has set; nil for those of the configuration.
	Lambdas *losses.Lambdas `json:"lambdas,omitempty"`

	// ImageEntropy and PatchEntropy are the mean entropy of the targets, in [0, ln K] for heads with K outputs. At ln K the targets carry no
	// information.
	ImageEntropy float64 `json:"image_entropy,omitempty"`
	PatchEntropy float64 `json:"patch_entropy,omitempty"`

	GradientNorm float64 `json:"gradient_norm"` // Before clipping.

	// Class and Patches are the spread of the online branch's [CLS] and patch tokens in a global view. They are measured every MetricsEvery steps and
	// nil otherwise.
	Class   *metrics.Spread `json:"class,omitempty"`
	Patches *metrics.Spread `json:"patches,omitempty"`
	// Classes is the spread of the same patch tokens within and between classes, if the images have labels.
	Classes *metrics.ClassSpread `json:"classes,omitempty"`
}

// The names of a step's reports: losses and entropies are scalars, covariances are [D, D], the spread of classes is [2].
const (
	reportTotal              = "total"
	reportPatchAlignment     = "patch alignment"
	reportImageAlignment     = "image alignment"
	reportPatchConcentration = "patch concentration"
	reportImageConcentration = "image concentration"
	reportPrototypes         = "prototypes"
	reportImageEntropy       = "image entropy"
	reportPatchEntropy       = "patch entropy"
	reportGradientNorm       = "gradient norm"
	reportClassSpread        = "class spread"
	reportPatchSpread        = "patch spread"
	reportSpreadOfClasses    = "spread of classes"
)

// set adds a scalar report to its metric.
func (m *StepMetrics) set(report string, value float64) {
	for name, metric := range map[string]*float64{
		reportTotal: &m.Total, reportPatchAlignment: &m.PatchAlignment, reportImageAlignment: &m.ImageAlignment,
		reportPatchConcentration: &m.PatchConcentration, reportImageConcentration: &m.ImageConcentration, reportPrototypes: &m.Prototypes,
		reportImageEntropy: &m.ImageEntropy, reportPatchEntropy: &m.PatchEntropy, reportGradientNorm: &m.GradientNorm,
	} {
		if name == report {
			*metric += value
		}
	}
}

// finite reports whether the loss and its gradient are finite.
func (m *StepMetrics) finite() bool {
	for _, x := range []float64{m.Total, m.GradientNorm} {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return false
		}
	}
	return true
}

// entropy is the mean entropy of distributions, [N, K].
func entropy(distributions *Node) *Node {
	log := Log(MaxScalar(distributions, 1e-30))
	return Neg(ReduceAllMean(ReduceSum(Mul(distributions, log), -1)))
}
