package sccore

import (
	"math"

	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore/metrics"
)

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
