package sccore

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"reflect"

	"github.com/dsnet/try"
	"github.com/samber/lo"

	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/optim"
	"github.com/semcon/semcon/sccore/train"
)

// task is the method as package train takes it.
func (t *Trainer) task() train.Task[StepMetrics] {
	inputs := t.step.inputs()
	return train.Task[StepMetrics]{
		Steps: func() int { return t.config.Steps }, Parts: t.parts(), Workload: t.workload(), Memory: func() int64 { return int64(t.config.MemoryGB * 1e9) }, Inputs: inputs[:len(inputs)-1],
		Batches: func(ctx context.Context, seed uint64, from int) iter.Seq2[train.Batch, error] { // With their views.
			return train.Prepared(t.mixture(seed).Batches(ctx, from), func(batch *datasets.Batch) (_ train.Batch, err error) {
				defer try.Handle(&err)
				inputs := try.E1(t.inputs(t.step, batch, seed, nil))
				return train.Batch{Inputs: inputs[:len(inputs)-1], Taken: func() { t.Skip(batch.Skipped) }}, nil
			})
		},
		Schedule: t.scheduled, Loss: t.loss, Update: t.update,
		Save: t.saveLambdas, Restore: t.restoreLambdas,
		Config: func() any {
			c := t.config
			c.MemoryGB = 0 // A limit does not change a run.
			return c
		},
		Describe: func(m *StepMetrics, step int) {
			m.Step, m.Lambdas = step+1, t.measured
			m.LearningRate, _, _ = t.config.schedule(step)
		},
	}
}

// workload counts a step from the configuration: transformers and heads of both branches, and of a teacher that does not train. Views and losses are not
// counted, which model FLOP utilisation leaves out.
func (t *Trainer) workload() train.Workload {
	s := t.step
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
		if third, _, ok := s.third(); ok {
			total += float64(images*s.Views.Globals) * third.vit.FLOPs(patches(s.Views.GlobalCropSize))
		}
	}
	total += float64(s.positives()) * view(s.Views.GlobalCropSize, true)
	return train.Workload{Images: t.config.Batch, FLOPs: float64(t.parts()) * total, BFloat16: s.vit.ComputeDType.IsHalfPrecision()}
}

// FLOPs is what a step on objects and scenes computes in products: transformers and heads, forward and backward. The configuration must be one that [settings.Check]
// accepts.
func (c Config) FLOPs() float64 {
	t := Trainer{config: c, step: newStep(c, true, true, false)}
	return t.workload().FLOPs
}

// parts is the number of parts that a batch is computed in.
func (t *Trainer) parts() int { return t.config.AccumulationSteps }

// loss is the loss of a batch, or of one part of it. Losses are the mean over parts; spreads are over the first part.
func (t *Trainer) loss(scope *model.Scope, inputs []*Node) (*Node, []train.Report[StepMetrics]) {
	total, reports := t.step.forward(scope, train.ByName(t.step.inputs(), inputs))
	for i, r := range reports {
		if r.Node.IsScalar() {
			continue
		}
		reports[i].Read = func(m *StepMetrics, at train.At, value *tensors.Tensor) string {
			if at.Part == 0 && m.Step%t.config.MetricsEvery == 0 {
				return r.Read(m, at, value)
			}
			return ""
		}
	}
	return total, reports
}

// update takes the optimizer's step and moves the target branch. It reports the norm of the gradient.
func (t *Trainer) update(scope *model.Scope, variables []*model.Variable, gradients []*Node, schedule *Node) []train.Report[StepMetrics] {
	s, read, norm := t.step, readScheduled(schedule), optim.GlobalNorm(gradients)
	if s.GradientClip > 0 {
		gradients, norm = optim.ClipByGlobalNorm(gradients, s.GradientClip)
	}
	optim.DefaultAdamW().Update(scope.At(optimizerScope), variables, gradients, read.rate, read.decay)
	train.UpdateEMA(scope.At(onlineScope), scope.At(targetScope), read.momentum)
	return []train.Report[StepMetrics]{train.Mean("gradient norm", norm, func(m *StepMetrics) *float64 { return &m.GradientNorm })}
}

// scheduled are the scalars of [inScheduled] at a step.
func (t *Trainer) scheduled(step int) []float32 {
	rate, decay, momentum := t.config.schedule(step)
	scheduled := []float32{float32(rate), float32(decay), float32(momentum)}
	l := t.Lambdas()
	scheduled = append(scheduled, lo.Map(Losses[:], func(loss Loss, _ int) float32 { return float32(loss.Lambda(l)) })...)
	return append(scheduled, float32(t.config.Correspondences.Noise))
}

// mixture reads the parts of a run's batches, one per step.
func (t *Trainer) mixture(seed uint64) datasets.Loader {
	m := t.data.Loader(seed, t.config.Batch/t.config.AccumulationSteps, t.config.ImageSize)
	if t.step.positives() > 0 {
		m.Positive = t.data.Neighbours.Positive(seed)
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

	// ImageEntropy and PatchEntropy are the mean entropy of the targets, in [0, ln K] for heads with K outputs. At ln K the targets carry no information.
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
		if total != nil {
			weighted = Add(total, weighted)
		}
		total = weighted
	}
	return total
}

// ByGradient is the [Config].LambdaBy with which a concentration's λ is the length of its gradient, as a share of the length of alignment's gradient at its
// level, patches or images. The weight is then this share divided by the ratio of both lengths, see [Diagnostics], and stays the same for the whole run. The λ
// of alignment and of L_proto stay what they are: L_proto has no gradient on the shared features.
const ByGradient = "gradient"

// partsForLambdas is the number of first parts of batches that set λ by their mean lengths; a step has [Config].Accumulate parts. The network has the weights that the run begins with: during the
// warmup of the learning rate they barely move.
const partsForLambdas = 8

// Lambdas are the weights of the losses in the run: the configured ones, or with [ByGradient], from the first step on, the measured ones.
func (t *Trainer) Lambdas() losses.Lambdas { return *cmp.Or(t.measured, &t.config.Lambdas) }

// Step trains one step, see [train.Trainer.Step]. With [ByGradient] the first step sets the weights of the losses.
func (t *Trainer) Step(ctx context.Context) (_ StepMetrics, err error) {
	defer try.Handle(&err)
	if t.config.LambdaBy == ByGradient && t.measured == nil {
		try.E(t.measureLambdas(ctx))
	}
	return t.Trainer.Step(ctx)
}

// measureLambdas sets the weights by the lengths of the gradients.
func (t *Trainer) measureLambdas(ctx context.Context) (err error) {
	defer try.Handle(&err)
	var sums losses.Lambdas
	for part := range partsForLambdas {
		d := try.E1(t.diagnose(ctx, part, 1, true))
		for _, loss := range Losses {
			*loss.lambda(&sums) += loss.Lambda(d.Lengths)
		}
	}
	measured := t.config.Lambdas
	for _, level := range [][2]Loss{{Losses[patchAlignment], Losses[patchConcentration]}, {Losses[imageAlignment], Losses[imageConcentration]}} {
		lambda, aligning, concentrating := level[1].lambda(&measured), level[0].Lambda(sums), level[1].Lambda(sums)
		if *lambda == 0 {
			continue
		}
		*lambda *= level[0].Lambda(measured) * aligning / concentrating
		if !(*lambda > 0 && *lambda <= 1e6) { // Or NaN.
			return fmt.Errorf("lambda_by gradient: the gradients of %s and %s have lengths %g and %g", level[0].Name, level[1].Name, aligning, concentrating)
		}
	}
	t.measured = &measured
	return nil
}

// lambdasKey is the metadata of a checkpoint that holds the measured weights.
const lambdasKey = "lambdas"

// saveLambdas adds the measured weights to the metadata of a checkpoint.
func (t *Trainer) saveLambdas(_ train.Position, metadata map[string]string) error {
	if t.config.LambdaBy != ByGradient {
		return nil
	}
	encoded, err := json.Marshal(t.measured) // null before the first step.
	metadata[lambdasKey] = string(encoded)
	return err
}

// restoreLambdas is the reverse.
func (t *Trainer) restoreLambdas(metadata map[string]string, _ *train.Position) error {
	t.measured = nil
	if t.config.LambdaBy != ByGradient {
		return nil
	}
	if err := json.Unmarshal([]byte(metadata[lambdasKey]), &t.measured); err != nil {
		return fmt.Errorf("weights of the losses: %w", err)
	}
	return nil
}
