// Package methods trains an encoder by comparing two views of an image, with the four image-level methods of the paper's augmentation study (Tab.
// effect_aug): SimCLR, Barlow Twins, MoCo and SimSiam.
//
// It takes images of one size and a [Config] and produces the weights of a backbone; a [FeatureExtractor] then maps views to features. A [Trainer]
// serves any number of runs with one compiled step: the augmentation of views, the seed and the learning rate are inputs of the step. A new method
// needs a name in config.go, a head in heads.go and a case in Config.loss.
package methods

import (
	"fmt"
	"slices"
	"strings"

	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/settings"
)

// Names are the names of the methods, in the paper's order.
var Names = []string{SimCLR, BarlowTwins, MoCo, SimSiam}

// The methods' names.
const (
	SimCLR      = "simclr"       // Chen et al. 2020
	BarlowTwins = "barlow-twins" // Zbontar et al. 2021
	MoCo        = "moco"         // He et al. 2020, with MoCo v2's projector
	SimSiam     = "simsiam"      // Chen & He 2021
)

// Config shapes the graph of a training step and its schedule. Fields that a method does not use are 0.
type Config struct {
	Method  string `json:"method"`  // The training method: simclr, barlow-twins, moco or simsiam.
	Encoder string `json:"encoder"` // Name of the encoder: resnet18, conv4, or narrower ones such as resnet18-w16 and conv4-w8.
	Batch   int    `json:"batch"`   // Images per step; each gives two views.
	Epochs  int    `json:"epochs"`

	LearningRate float64 `json:"rate"`          // Peak of the cosine schedule, which ends at 0.
	WarmupEpochs int     `json:"warmup_epochs"` // Epochs of linear warmup before the cosine.
	Momentum     float64 `json:"momentum"`      // Momentum of SGD.
	WeightDecay  float64 `json:"weight_decay"`

	ProjectorHidden int `json:"projector_hidden"` // Width of the hidden layers of the projector.
	ProjectorDim    int `json:"projector_dim"`    // Width of the projector's output.
	PredictorHidden int `json:"predictor_hidden"` // SimSiam: width of the predictor's hidden layer.

	Temperature    float64 `json:"temperature"`     // SimCLR, MoCo: temperature of the softmax.
	OffDiagonal    float64 `json:"off_diagonal"`    // Barlow Twins: weight λ of the entries off the diagonal.
	LossScale      float64 `json:"loss_scale"`      // Barlow Twins: factor on the loss.
	Queue          int     `json:"queue"`           // MoCo: length of the queue of keys.
	TargetMomentum float64 `json:"target_momentum"` // MoCo: momentum of the key encoder.
	NormGroups     int     `json:"norm_groups"`     // MoCo: groups of the split BatchNorm.
}

// Check returns an error that names the first field that is out of range.
func (c Config) Check() error {
	if !slices.Contains(Names, c.Method) {
		return fmt.Errorf("method %q is unknown; the methods are %s", c.Method, strings.Join(Names, ", "))
	}
	if _, err := encoder.ByName(c.Encoder); err != nil {
		return fmt.Errorf("encoder: %w", err)
	}
	// What a run holds in memory and counts in grows with these: beyond, they are slips of the finger.
	for _, field := range []struct {
		name             string
		value, low, high int
	}{
		{"batch", c.Batch, 2, 4096}, {"epochs", c.Epochs, 1, 1 << 24}, {"projector_hidden", c.ProjectorHidden, 1, 1 << 14},
		{"projector_dim", c.ProjectorDim, 1, 1 << 14}, {"predictor_hidden", c.PredictorHidden, 0, 1 << 14}, {"queue", c.Queue, 0, 1 << 17},
		{"norm_groups", c.NormGroups, 0, 4096},
	} {
		if field.value < field.low || field.value > field.high {
			return fmt.Errorf("%s %d is not between %d and %d", field.name, field.value, field.low, field.high)
		}
	}
	positive := map[string]float64{"rate": c.LearningRate}
	switch c.Method {
	case SimCLR:
		positive["temperature"] = c.Temperature
	case BarlowTwins:
		positive["off_diagonal"], positive["loss_scale"] = c.OffDiagonal, c.LossScale
	case MoCo:
		positive["temperature"], positive["norm_groups"], positive["queue"] = c.Temperature, float64(c.NormGroups), float64(c.Queue)
		if c.NormGroups > 0 && c.Batch%c.NormGroups != 0 {
			return fmt.Errorf("norm_groups %d does not divide batch %d", c.NormGroups, c.Batch)
		}
		if c.Queue < c.Batch {
			return fmt.Errorf("queue %d is smaller than batch %d", c.Queue, c.Batch)
		}
	case SimSiam:
		positive["predictor_hidden"] = float64(c.PredictorHidden)
	}
	for _, name := range []string{"rate", "temperature", "off_diagonal", "loss_scale", "norm_groups", "queue", "predictor_hidden"} {
		if value, ok := positive[name]; ok && !(value > 0) {
			return fmt.Errorf("%s %g is too small for %s", name, value, c.Method)
		}
	}
	for name, value := range map[string]float64{
		"rate": c.LearningRate, "weight_decay": c.WeightDecay, "temperature": c.Temperature, "off_diagonal": c.OffDiagonal, "loss_scale": c.LossScale,
	} {
		if err := settings.Between(name, value, 0, 1e6); err != nil {
			return err
		}
	}
	for name, value := range map[string]float64{"momentum": c.Momentum, "target_momentum": c.TargetMomentum} {
		if !(value >= 0 && value < 1) {
			return fmt.Errorf("%s %g is not in [0, 1)", name, value)
		}
	}
	if c.WarmupEpochs < 0 || c.WarmupEpochs >= c.Epochs {
		return fmt.Errorf("warmup_epochs %d is not in [0, epochs %d)", c.WarmupEpochs, c.Epochs)
	}
	return nil
}
