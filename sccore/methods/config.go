// Package methods trains an encoder by comparing two views of an image, with the four image-level methods of the paper's augmentation study (Tab.
// effect_aug): SimCLR, Barlow Twins, MoCo and SimSiam.
//
// It takes images of one size and a [Config] and produces the weights of a backbone; a [FeatureExtractor] then maps views to features. A [Trainer]
// serves any number of runs with one compiled step: the augmentation of views, the seed and the learning rate are inputs of the step. A new method
// needs a name in config.go, a head in heads.go and a case in Config.loss.
package methods

import (
	"fmt"
	"maps"
	"slices"

	"github.com/semcon/semcon/sccore/encoder"
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
	Method  string `json:"method" oneof:"simclr|barlow-twins|moco|simsiam"` // The training method: simclr, barlow-twins, moco or simsiam.
	Encoder string `json:"encoder"`                                         // Name of the encoder: resnet18, conv4, or narrower ones such as resnet18-w16 and conv4-w8.
	Batch   int    `json:"batch" range:"[2,4096]"`                          // Images per step; each gives two views.
	Epochs  int    `json:"epochs" range:"[1,2^24]"`

	LearningRate float64 `json:"rate" range:"(0,1e6]"`           // Peak of the cosine schedule, which ends at 0.
	WarmupEpochs int     `json:"warmup_epochs" range:"[0,2^24]"` // Epochs of linear warmup before the cosine.
	Momentum     float64 `json:"momentum" range:"[0,1)"`         // Momentum of SGD.
	WeightDecay  float64 `json:"weight_decay" range:"[0,1e6]"`

	ProjectorHidden int `json:"projector_hidden" range:"[1,2^14]"` // Width of the hidden layers of the projector.
	ProjectorDim    int `json:"projector_dim" range:"[1,2^14]"`    // Width of the projector's output.
	PredictorHidden int `json:"predictor_hidden" range:"[0,2^14]"` // SimSiam: width of the predictor's hidden layer.

	Temperature    float64 `json:"temperature" range:"[0,1e6]"`   // SimCLR, MoCo: temperature of the softmax.
	OffDiagonal    float64 `json:"off_diagonal" range:"[0,1e6]"`  // Barlow Twins: weight λ of the entries off the diagonal.
	LossScale      float64 `json:"loss_scale" range:"[0,1e6]"`    // Barlow Twins: factor on the loss.
	Queue          int     `json:"queue" range:"[0,2^17]"`        // MoCo: length of the queue of keys.
	TargetMomentum float64 `json:"target_momentum" range:"[0,1)"` // MoCo: momentum of the key encoder.
	NormGroups     int     `json:"norm_groups" range:"[0,4096]"`  // MoCo: groups of the split BatchNorm.
}

// Rules returns an error that names the first field that the method cannot do with; see [settings.Check].
func (c Config) Rules() error {
	if _, err := encoder.ByName(c.Encoder); err != nil {
		return fmt.Errorf("encoder: %w", err)
	}
	positive := map[string]float64{}
	switch c.Method {
	case SimCLR:
		positive["temperature"] = c.Temperature
	case BarlowTwins:
		positive["off_diagonal"], positive["loss_scale"] = c.OffDiagonal, c.LossScale
	case MoCo:
		positive["temperature"], positive["norm_groups"] = c.Temperature, float64(c.NormGroups)
	case SimSiam:
		positive["predictor_hidden"] = float64(c.PredictorHidden)
	}
	for _, name := range slices.Sorted(maps.Keys(positive)) {
		if positive[name] == 0 {
			return fmt.Errorf("%s 0 is too small for %s", name, c.Method)
		}
	}
	switch {
	case c.Method == MoCo && c.Batch%c.NormGroups != 0:
		return fmt.Errorf("norm_groups %d does not divide batch %d", c.NormGroups, c.Batch)
	case c.Method == MoCo && c.Queue < c.Batch:
		return fmt.Errorf("queue %d is smaller than batch %d", c.Queue, c.Batch)
	case c.WarmupEpochs >= c.Epochs:
		return fmt.Errorf("warmup_epochs %d is not below epochs %d", c.WarmupEpochs, c.Epochs)
	}
	return nil
}
