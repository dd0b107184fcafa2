package selfdistillation

import (
	"math"
)

// StepMetrics are what a training step reports. A loss that the method does not have is 0.
type StepMetrics struct {
	Step         int     `json:"step"` // Steps done, including this one.
	LearningRate float64 `json:"rate"` // The one this step used.

	Total      float64 `json:"total"`
	Class      float64 `json:"class,omitempty"`       // DINO's and iBOT's loss of [CLS] tokens.
	Patches    float64 `json:"patches,omitempty"`     // iBOT's loss of hidden patches.
	Instance   float64 `json:"instance,omitempty"`    // Mugs' three losses.
	LocalGroup float64 `json:"local_group,omitempty"` //
	Group      float64 `json:"group,omitempty"`       //

	// Entropy is the mean entropy of the teacher's distributions of [CLS] tokens, and MeanEntropy that of their mean, in [0, ln K] for K logits. A teacher
	// that has collapsed has both at ln K, or both at 0.
	Entropy     float64 `json:"entropy"`
	MeanEntropy float64 `json:"mean_entropy"`

	GradientNorm float64 `json:"gradient_norm"` // Before clipping.
}

// The names of a step's reports, in the order of the graph's outputs.
const (
	reportTotal = iota
	reportClass
	reportPatches
	reportInstance
	reportLocalGroup
	reportGroup
	reportEntropy
	reportMeanEntropy
	reportGradientNorm
	reports
)

// fields are the metrics in that order.
func (m *StepMetrics) fields() [reports]*float64 {
	return [reports]*float64{
		reportTotal: &m.Total, reportClass: &m.Class, reportPatches: &m.Patches, reportInstance: &m.Instance, reportLocalGroup: &m.LocalGroup,
		reportGroup: &m.Group, reportEntropy: &m.Entropy, reportMeanEntropy: &m.MeanEntropy, reportGradientNorm: &m.GradientNorm,
	}
}

// finite reports whether the loss and its gradient are finite.
func (m *StepMetrics) finite() bool {
	return !math.IsNaN(m.Total+m.GradientNorm) && !math.IsInf(m.Total+m.GradientNorm, 0)
}
