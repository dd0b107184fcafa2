package methods

import (
	"fmt"
	"slices"
	"strings"

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

// Settings shape the graph of a training step and its schedule. Fields that a method does not use are 0.
type Settings struct {
	Method  string `json:"method"`
	Encoder string `json:"encoder"` // A name that encoder.ByName knows.
	Batch   int    `json:"batch"`   // Images in a step; each gives two views.
	Epochs  int    `json:"epochs"`

	Rate         float64 `json:"rate"`          // Peak learning rate of the cosine schedule, which ends at 0.
	WarmupEpochs int     `json:"warmup_epochs"` // Epochs of linear warm-up before it.
	Momentum     float64 `json:"momentum"`      // Of SGD.
	WeightDecay  float64 `json:"weight_decay"`

	ProjectorHidden int `json:"projector_hidden"`
	ProjectorDim    int `json:"projector_dim"`
	PredictorHidden int `json:"predictor_hidden"` // SimSiam

	Temperature    float64 `json:"temperature"`     // SimCLR, MoCo
	OffDiagonal    float64 `json:"off_diagonal"`    // Barlow Twins' λ
	LossScale      float64 `json:"loss_scale"`      // Barlow Twins' factor of the loss
	Queue          int     `json:"queue"`           // MoCo: keys kept
	TargetMomentum float64 `json:"target_momentum"` // MoCo: of the key encoder
	NormGroups     int     `json:"norm_groups"`     // MoCo: groups of the split BatchNorm
}

// Check returns an error that names the first field that is out of range.
func (s Settings) Check() error {
	if !slices.Contains(Names, s.Method) {
		return fmt.Errorf("method %q is unknown; the methods are %s", s.Method, strings.Join(Names, ", "))
	}
	if _, err := encoder.ByName(s.Encoder); err != nil {
		return err
	}
	positive := map[string]float64{"batch": float64(s.Batch - 1), "epochs": float64(s.Epochs), "rate": s.Rate,
		"projector_hidden": float64(s.ProjectorHidden), "projector_dim": float64(s.ProjectorDim)}
	switch s.Method {
	case SimCLR:
		positive["temperature"] = s.Temperature
	case BarlowTwins:
		positive["off_diagonal"], positive["loss_scale"] = s.OffDiagonal, s.LossScale
	case MoCo:
		positive["temperature"], positive["norm_groups"], positive["queue"] = s.Temperature, float64(s.NormGroups), float64(s.Queue)
		if s.NormGroups > 0 && s.Batch%s.NormGroups != 0 {
			return fmt.Errorf("norm_groups %d does not divide batch %d", s.NormGroups, s.Batch)
		}
		if s.Queue < s.Batch {
			return fmt.Errorf("queue %d is smaller than batch %d", s.Queue, s.Batch)
		}
	case SimSiam:
		positive["predictor_hidden"] = float64(s.PredictorHidden)
	}
	for _, name := range []string{"batch", "epochs", "rate", "projector_hidden", "projector_dim", "temperature", "off_diagonal", "loss_scale", "norm_groups", "queue", "predictor_hidden"} {
		if value, ok := positive[name]; ok && !(value > 0) {
			return fmt.Errorf("%s %g is too small for %s", name, value, s.Method)
		}
	}
	for name, value := range map[string]float64{"momentum": s.Momentum, "target_momentum": s.TargetMomentum} {
		if !(value >= 0 && value < 1) {
			return fmt.Errorf("%s %g is not in [0, 1)", name, value)
		}
	}
	if !(s.WeightDecay >= 0) {
		return fmt.Errorf("weight_decay %g is negative", s.WeightDecay)
	}
	if s.WarmupEpochs < 0 || s.WarmupEpochs >= s.Epochs {
		return fmt.Errorf("warmup_epochs %d is not in [0, epochs %d)", s.WarmupEpochs, s.Epochs)
	}
	return nil
}
