package sccore

import (
	"context"
	"encoding/json"
	"fmt"
	"math"

	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore/train"
)

// Loss is one of the losses of the method, whose sum, each times its λ, trains the online branch.
type Loss struct {
	Name  string // In settings and curves.
	Title string // In figures.

	lambda func(*losses.Lambdas) *float64
	metric func(*StepMetrics) *float64
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
	imageAlignment: {
		"image_alignment", "image alignment",
		func(l *losses.Lambdas) *float64 { return &l.ImageAlignment }, func(m *StepMetrics) *float64 { return &m.ImageAlignment },
	},
	patchAlignment: {
		"patch_alignment", "patch alignment",
		func(l *losses.Lambdas) *float64 { return &l.PatchAlignment }, func(m *StepMetrics) *float64 { return &m.PatchAlignment },
	},
	imageConcentration: {
		"image_concentration", "image concentration",
		func(l *losses.Lambdas) *float64 { return &l.ImageConcentration }, func(m *StepMetrics) *float64 { return &m.ImageConcentration },
	},
	patchConcentration: {
		"patch_concentration", "CoTAP",
		func(l *losses.Lambdas) *float64 { return &l.PatchConcentration }, func(m *StepMetrics) *float64 { return &m.PatchConcentration },
	},
	prototypes: {
		"prototypes", "prototypes",
		func(l *losses.Lambdas) *float64 { return &l.Prototypes }, func(m *StepMetrics) *float64 { return &m.Prototypes },
	},
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
