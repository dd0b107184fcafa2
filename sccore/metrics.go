package sccore

import (
	"math"

	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/losses"
	"gonum.org/v1/gonum/mat"
)

// StepMetrics are what a training step reports. A loss that is switched off is 0.
type StepMetrics struct {
	Step int     `json:"step"` // Steps done, this one included.
	Rate float64 `json:"rate"` // Learning rate of the step.

	Total              float64 `json:"total"` // The loss, with its λ.
	PatchAlignment     float64 `json:"patch_alignment,omitempty"`
	ImageAlignment     float64 `json:"image_alignment,omitempty"`
	PatchConcentration float64 `json:"patch_concentration,omitempty"`
	ImageConcentration float64 `json:"image_concentration,omitempty"`
	Prototypes         float64 `json:"prototypes,omitempty"`

	// ImageEntropy and PatchEntropy are the mean entropy of the targets, in [0, ln K] for heads of K outputs. At ln K the targets say nothing.
	ImageEntropy float64 `json:"image_entropy,omitempty"`
	PatchEntropy float64 `json:"patch_entropy,omitempty"`

	GradientNorm float64 `json:"gradient_norm"` // Before clipping.

	// Class and Patches are the spread of the online branch's [CLS] and patch tokens in a global view, every GaugeEvery steps, nil between.
	Class   *Spread `json:"class,omitempty"`
	Patches *Spread `json:"patches,omitempty"`
	// Classes is the spread of the same patch tokens within and between classes, when the images have labels.
	Classes *ClassSpread `json:"classes,omitempty"`
}

// Spread says how much of their space features use.
type Spread struct {
	// Std is √D times the mean over the D dimensions of the standard deviation of unit-length features: near 1 where they are spread evenly
	// over the sphere, 0 where they have collapsed to a point.
	Std float64 `json:"std"`
	// Rank is the effective rank of their covariance, in [1, D], or 0; see [EffectiveRank].
	Rank float64 `json:"rank"`
}

// ClassSpread is the variance of unit-length features that have a label, in two parts: together they are the whole.
type ClassSpread struct {
	Within  float64 `json:"within"`  // Mean squared distance of a feature from the mean of its class, in [0, 1].
	Between float64 `json:"between"` // Mean squared distance of that mean from the mean of all, in [0, 1].
}

// Share is Between's part of the whole, in [0, 1]: near 0 where classes look alike, 1 where all of a class do, and 0 for features that do not
// vary.
func (s ClassSpread) Share() float64 {
	if s.Between <= 0 {
		return 0
	}
	return s.Between / (s.Within + s.Between)
}

// EffectiveRank is the exponential of the entropy of a covariance's spectrum (Roy & Vetterli 2007), in [1, D], and 0 for features that do
// not vary.
func EffectiveRank(covariance *mat.SymDense) float64 {
	var eigen mat.EigenSym
	if !eigen.Factorize(covariance, false) {
		return math.NaN() // Not of finite numbers.
	}
	total, entropy := 0.0, 0.0
	values := eigen.Values(nil)
	for _, value := range values {
		total += max(value, 0)
	}
	if total < 1e-24 {
		return 0
	}
	for _, value := range values {
		if share := value / total; share > 0 {
			entropy -= share * math.Log(share)
		}
	}
	return math.Exp(entropy)
}

// The names of what a step reports: losses and entropies, scalars; covariances, [D, D]; and the spread of classes, [2].
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

// set adds to the metric that a scalar report is for.
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

// finite tells whether the loss and its gradient are numbers.
func (m *StepMetrics) finite() bool {
	for _, x := range []float64{m.Total, m.GradientNorm} {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return false
		}
	}
	return true
}

// spreadOf measures a covariance, [D, D] of float32.
func spreadOf(covariance *tensors.Tensor) *Spread {
	dim := covariance.Shape().Dim(0)
	symmetric := mat.NewSymDense(dim, nil)
	std := 0.0
	for i, x := range tensors.MustCopyFlatData[float32](covariance) {
		row, column := i/dim, i%dim
		if row <= column {
			symmetric.SetSym(row, column, float64(x))
		}
		if row == column {
			std += math.Sqrt(max(float64(x), 0)) / float64(dim)
		}
	}
	return &Spread{Std: math.Sqrt(float64(dim)) * std, Rank: EffectiveRank(symmetric)}
}

// covariance is that of features, [..., D], scaled to length 1: [D, D].
func covariance(features *Node) *Node {
	dim := features.Shape().Dim(-1)
	unit := losses.Unit(Reshape(StopGradient(features), -1, dim))
	centred := Sub(unit, ReduceAndKeep(unit, ReduceMean, 0))
	return DivScalar(MatMul(Transpose(centred, 0, 1), centred), float64(unit.Shape().Dim(0)))
}

// spreadOfClasses is the variance within and between classes, [2], of features, [N, D], scaled to length 1, that have a label, [N] in [0, 256),
// other than 0.
func spreadOfClasses(features, labels *Node) *Node {
	unit := losses.Unit(StopGradient(features))
	of := Slice(OneHot(labels, 256, unit.DType()), AxisRange(), AxisRange(1)) // Membership; a row of zeros without a label.
	labelled := ReduceAndKeep(of, ReduceSum, 1)
	unit = Mul(unit, labelled)
	all := MaxScalar(ReduceAllSum(labelled), 1)
	means := Div(MatMul(Transpose(of, 0, 1), unit), MaxScalar(Reshape(ReduceSum(of, 0), -1, 1), 1))
	own, centre := MatMul(of, means), Div(ReduceAndKeep(unit, ReduceSum, 0), all)
	within := ReduceAllSum(Square(Sub(unit, own)))
	between := ReduceAllSum(Square(Sub(own, Mul(labelled, centre))))
	return Div(Stack([]*Node{within, between}, 0), all)
}

// entropy is the mean entropy of distributions, [N, K].
func entropy(distributions *Node) *Node {
	log := Log(MaxScalar(distributions, 1e-30))
	return Neg(ReduceAllMean(ReduceSum(Mul(distributions, log), -1)))
}
