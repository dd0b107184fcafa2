package sccore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/semcon/semcon/losses"
)

// ByGradient is the [Config].LambdaBy with which a concentration's λ is the length of its gradient, as a share of that of the alignment of its level,
// patches or images. Its λ is then that share divided by the ratio of both lengths, see [Gauges], and stays the same for the whole run. Alignment's λ
// and that of L_proto, which has no gradient on the shared features, stay what they are.
const ByGradient = "gradient"

// batchesForLambdas is the number of batches, those of the first steps, whose mean lengths set λ. The weights are those that the run begins with: during
// the warmup of the learning rate they barely move.
const batchesForLambdas = 8

// checkLambdas returns an error if a share has nothing that it is a share of.
func (c Config) checkLambdas() error {
	switch l := c.Lambdas; {
	case c.LambdaBy == "":
		return nil
	case c.LambdaBy != ByGradient:
		return fmt.Errorf("lambda_by %q: want %s, or nothing for the values of lambdas", c.LambdaBy, ByGradient)
	case l.PatchConcentration > 0 && l.PatchAlignment == 0:
		return errors.New("lambda_by gradient: lambdas.patch_concentration is a share of patch_alignment, which is 0")
	case l.ImageConcentration > 0 && l.ImageAlignment == 0:
		return errors.New("lambda_by gradient: lambdas.image_concentration is a share of image_alignment, which is 0")
	}
	return nil
}

// lambdas are the weights of the run.
func (o *Objective) lambdas() losses.Lambdas {
	if o.measured != nil {
		return *o.measured
	}
	return o.config.Lambdas
}

// Lambdas are the weights of the losses in the run: those of the configuration, or with [ByGradient], from the first step on, those that were measured.
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
		g, err := t.gauges(ctx, part)
		if err != nil {
			return err
		}
		for i, sum := range each(&sums) {
			*sum += *each(&g.Lengths)[i]
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
		if math.IsNaN(*level.lambda) || !(*level.lambda > 0 && *level.lambda <= maxReal) {
			return fmt.Errorf("lambda_by gradient: the gradients of %s_alignment and %[1]s_concentration have lengths %g and %g", level.name, level.aligning, level.concentrating)
		}
	}
	t.objective.measured = &measured
	return nil
}

// lambdasKey is the metadata of a checkpoint that holds the measured weights.
const lambdasKey = "lambdas"

// saveLambdas adds the measured weights to the metadata of a checkpoint.
func (o *Objective) saveLambdas(metadata map[string]string) error {
	if o.config.LambdaBy != ByGradient {
		return nil
	}
	encoded, err := json.Marshal(o.lambdas())
	metadata[lambdasKey] = string(encoded)
	return err
}

// restoreLambdas is the reverse.
func (o *Objective) restoreLambdas(metadata map[string]string) error {
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
