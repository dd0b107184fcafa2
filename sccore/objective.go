package sccore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"reflect"

	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/optim"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/train"
)

// Objective is the method on its data: the graph of its step, and the batches.
type Objective struct {
	config  Config // The current run's; the step is compiled for a configuration of the same shape.
	data    Data
	step    step
	skipped func([]datasets.Skipped)
	// The weights that [ByGradient] has set for the run; nil for the configuration's weights.
	measured *losses.Lambdas
}

// NewObjective returns the objective of a configuration. The error names what is out of range or missing.
func NewObjective(data Data, config Config) (*Objective, error) {
	if err := settings.Check(config); err != nil {
		return nil, err
	}
	o := &Objective{config: config, data: data, skipped: func([]datasets.Skipped) {}}
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
	o.step.background = data.Background
	o.step.taught = data.TeacherLabels != nil && config.fromLabels()
	return o, nil
}

// Task is the method as package train takes it.
func (o *Objective) Task() train.Task[StepMetrics] {
	inputs := o.step.inputs()
	return train.Task[StepMetrics]{
		Steps: func() int { return o.config.Steps }, Parts: o.parts(), Workload: o.Workload(), Memory: func() int64 { return int64(o.config.MemoryGB * 1e9) }, Inputs: inputs[:len(inputs)-1],
		Batches: o.batches, Schedule: o.scheduled, Loss: o.loss, Update: o.update,
		Config: func() any { return o.config.withoutLimits() }, Save: o.saveLambdas, Restore: o.restoreLambdas,
		Describe: func(m *StepMetrics, step int) {
			m.Step, m.Lambdas = step+1, o.measured
			m.LearningRate, _, _ = o.config.schedule(step)
		},
	}
}

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
	total := 0.0
	for object, images := range map[bool]int{true: s.objects, false: s.images() - s.objects} {
		globals, locals := float64(s.Views.Globals)*view(s.Views.GlobalCropSize, object), float64(s.Views.Locals)*view(s.Views.LocalCropSize, object)
		const backward = 2 // Gradients of both factors of each product.
		total += float64(images) * ((1+backward)*(globals+locals) + globals)
		if s.Lambdas.PatchConcentration > 0 && s.fromTeacher() {
			total += float64(images*s.Views.Globals) * s.teacher().vit.FLOPs(patches(s.Views.GlobalCropSize))
		}
	}
	total += float64(s.positives()) * view(s.Views.GlobalCropSize, true)
	return train.Workload{Images: o.config.Batch, FLOPs: float64(o.parts()) * total, BFloat16: s.vit.ComputeDType.IsHalfPrecision()}
}

// FLOPs is the [Objective.Workload] of a step on objects and scenes. The configuration must be one that [settings.Check] accepts.
func (c Config) FLOPs() float64 {
	o := Objective{config: c, step: newStep(c, true, true, false)}
	return o.Workload().FLOPs
}

// parts is the number of parts that a batch is computed in.
func (o *Objective) parts() int { return o.config.AccumulationSteps }

// loss is the loss of a batch, or of one part of it. Losses are the mean over parts; spreads are over the first part.
func (o *Objective) loss(scope *model.Scope, inputs []*Node) (*Node, []train.Report[StepMetrics]) {
	total, reports := o.step.forward(scope, train.ByName(o.step.inputs(), inputs))
	for i, r := range reports {
		if r.Node.IsScalar() {
			continue
		}
		reports[i].Read = func(m *StepMetrics, at train.At, value *tensors.Tensor) string {
			if at.Part == 0 && m.Step%o.config.MetricsEvery == 0 {
				return r.Read(m, at, value)
			}
			return ""
		}
	}
	return total, reports
}

// update takes the optimizer's step and moves the target branch. It reports the norm of the gradient.
func (o *Objective) update(scope *model.Scope, variables []*model.Variable, gradients []*Node, schedule *Node) []train.Report[StepMetrics] {
	s, read, norm := o.step, readScheduled(schedule), optim.GlobalNorm(gradients)
	if s.GradientClip > 0 {
		gradients, norm = optim.ClipByGlobalNorm(gradients, s.GradientClip)
	}
	optim.DefaultAdamW().Update(scope.At(optimizerScope), variables, gradients, read.rate, read.decay)
	train.UpdateEMA(scope.At(onlineScope), scope.At(targetScope), read.momentum)
	return []train.Report[StepMetrics]{train.Mean("gradient norm", norm, func(m *StepMetrics) *float64 { return &m.GradientNorm })}
}

// batches reads the parts of a run's batches and draws their views.
func (o *Objective) batches(ctx context.Context, seed uint64, from int) iter.Seq2[train.Batch, error] {
	return train.Prepared(o.mixture(seed).Batches(ctx, from), func(batch *datasets.Batch) (train.Batch, error) {
		inputs, err := o.inputs(o.step, batch, seed, nil)
		if err != nil {
			return train.Batch{}, err
		}
		return train.Batch{Inputs: inputs[:len(inputs)-1], Taken: func() { o.skipped(batch.Skipped) }}, nil
	})
}

// scheduled are the scalars of [inScheduled] at a step.
func (o *Objective) scheduled(step int) []float32 {
	rate, decay, momentum := o.config.schedule(step)
	scheduled := []float32{float32(rate), float32(decay), float32(momentum)}
	l := o.lambdas()
	for _, loss := range Losses {
		scheduled = append(scheduled, float32(loss.Lambda(l)))
	}
	return append(scheduled, float32(o.config.Correspondences.Noise))
}

// mixture reads the parts of a run's batches, one per step.
func (o *Objective) mixture(seed uint64) datasets.Loader {
	m := o.data.Loader(seed, o.config.Batch/o.config.AccumulationSteps, o.config.ImageSize)
	if o.step.positives() > 0 {
		m.Positive = o.data.Neighbours.Positive(seed)
	}
	return m
}

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

	// Lambdas are the weights that [ByGradient] has set; nil for the configuration's weights.
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

// entropy is the mean entropy of distributions, [N, K].
func entropy(distributions *Node) *Node {
	log := Log(MaxScalar(distributions, 1e-30))
	return Neg(ReduceAllMean(ReduceSum(Mul(distributions, log), -1)))
}

// Loss is one of the losses of the method, whose sum, each times its λ, trains the online branch.
type Loss struct {
	Name  string // In settings and curves.
	Title string // In figures.
	field string // Of [losses.Lambdas] and [StepMetrics].
}

// The places of the losses in [Losses].
const (
	imageAlignment = iota
	patchAlignment
	imageConcentration
	patchConcentration
	prototypes
)

// Losses are the losses of the method. A step takes a λ of each, computes those whose λ is not 0, and reports them without it.
var Losses = [...]Loss{
	imageAlignment:     {"image_alignment", "image alignment", "ImageAlignment"},
	patchAlignment:     {"patch_alignment", "patch alignment", "PatchAlignment"},
	imageConcentration: {"image_concentration", "image concentration", "ImageConcentration"},
	patchConcentration: {"patch_concentration", "CoTAP", "PatchConcentration"},
	prototypes:         {"prototypes", "prototypes", "Prototypes"},
}

func (l Loss) lambda(of *losses.Lambdas) *float64 { return l.in(of) }
func (l Loss) metric(of *StepMetrics) *float64    { return l.in(of) }

// in is the loss's field of what points to a struct.
func (l Loss) in(of any) *float64 {
	return reflect.ValueOf(of).Elem().FieldByName(l.field).Addr().Interface().(*float64)
}

// Lambda is the loss's weight.
func (l Loss) Lambda(lambdas losses.Lambdas) float64 { return *l.lambda(&lambdas) }

// Value is the loss in a step, without its weight.
func (l Loss) Value(m StepMetrics) float64 { return *l.metric(&m) }

// weightedSum is the sum of the losses that are on, whose weight in on is not 0, each times its λ. All versions add them in this order, since sums round.
func weightedSum(of, lambdas [len(Losses)]*Node, on losses.Lambdas) (total *Node) {
	for _, i := range []int{patchAlignment, imageAlignment, patchConcentration, imageConcentration, prototypes} {
		if of[i] == nil || Losses[i].Lambda(on) == 0 {
			continue
		}
		weighted := Mul(of[i], ConvertDType(lambdas[i], of[i].DType()))
		if total == nil {
			total = weighted
		} else {
			total = Add(total, weighted)
		}
	}
	return total
}

// ByGradient is the [Config].LambdaBy with which a concentration's λ is the length of its gradient, as a share of the length of alignment's gradient at its
// level, patches or images. The weight is then this share divided by the ratio of both lengths, see [Diagnostics], and stays the same for the whole run. The λ
// of alignment and of L_proto stay what they are: L_proto has no gradient on the shared features.
const ByGradient = "gradient"

// batchesForLambdas is the number of first steps whose batches set λ by their mean lengths. The network has the weights that the run begins with: during the
// warmup of the learning rate they barely move.
const batchesForLambdas = 8

// lambdas are the weights of the run.
func (o *Objective) lambdas() losses.Lambdas {
	if o.measured != nil {
		return *o.measured
	}
	return o.config.Lambdas
}

// Lambdas are the weights of the losses in the run: the configured ones, or with [ByGradient], from the first step on, the measured ones.
func (t *Trainer) Lambdas() losses.Lambdas { return t.objective.lambdas() }

// Step trains one step, see [train.Trainer.Step]. With [ByGradient] the first step sets the weights of the losses.
func (t *Trainer) Step(ctx context.Context) (StepMetrics, error) {
	if t.objective.config.LambdaBy == ByGradient && t.objective.measured == nil {
		if err := t.measureLambdas(ctx); err != nil {
			return StepMetrics{}, err
		}
	}
	return t.Trainer.Step(ctx)
}

// measureLambdas sets the weights by the lengths of the gradients.
func (t *Trainer) measureLambdas(ctx context.Context) error {
	var sums losses.Lambdas
	for part := range batchesForLambdas {
		d, err := t.diagnose(ctx, part)
		if err != nil {
			return err
		}
		for _, loss := range Losses {
			*loss.lambda(&sums) += loss.Lambda(d.Lengths)
		}
	}
	measured := t.objective.config.Lambdas
	for _, level := range []struct {
		name                               string
		lambda                             *float64
		alignment, aligning, concentrating float64
	}{
		{"patch", &measured.PatchConcentration, measured.PatchAlignment, sums.PatchAlignment, sums.PatchConcentration},
		{"image", &measured.ImageConcentration, measured.ImageAlignment, sums.ImageAlignment, sums.ImageConcentration},
	} {
		if *level.lambda == 0 {
			continue
		}
		*level.lambda *= level.alignment * level.aligning / level.concentrating
		if math.IsNaN(*level.lambda) || !(*level.lambda > 0 && *level.lambda <= 1e6) {
			return fmt.Errorf("lambda_by gradient: the gradients of %s_alignment and %[1]s_concentration have lengths %g and %g", level.name, level.aligning, level.concentrating)
		}
	}
	t.objective.measured = &measured
	return nil
}

// lambdasKey is the metadata of a checkpoint that holds the measured weights.
const lambdasKey = "lambdas"

// saveLambdas adds the measured weights to the metadata of a checkpoint.
func (o *Objective) saveLambdas(_ train.Position, metadata map[string]string) error {
	if o.config.LambdaBy != ByGradient {
		return nil
	}
	encoded, err := json.Marshal(o.lambdas())
	metadata[lambdasKey] = string(encoded)
	return err
}

// restoreLambdas is the reverse.
func (o *Objective) restoreLambdas(metadata map[string]string, _ *train.Position) error {
	o.measured = nil
	if o.config.LambdaBy != ByGradient {
		return nil
	}
	var measured losses.Lambdas
	if err := json.Unmarshal([]byte(metadata[lambdasKey]), &measured); err != nil {
		return fmt.Errorf("weights of the losses: %w", err)
	}
	o.measured = &measured
	return nil
}
