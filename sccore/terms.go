package sccore

import "github.com/semcon/semcon/losses"

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
