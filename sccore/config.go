package sccore

import (
	"fmt"
	"math"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/heads"
	"github.com/semcon/semcon/sccore/knn"
	"github.com/semcon/semcon/sccore/optim"
	"github.com/semcon/semcon/sccore/views"
)

// Config is all that shapes a training run but its data, its seed and its initial weights. Start from [Default].
type Config struct {
	Encoder    string            `json:"encoder"`    // A name that encoder.ViTByName knows.
	Positions  encoder.Positions `json:"positions"`  // How position embeddings are resized for local views.
	Prototypes int               `json:"prototypes"` // Of the Object-Aware Filter; 0 for no filter.
	ImageHead  heads.Projector   `json:"image_head"` // Of [CLS] tokens.
	PatchHead  heads.Projector   `json:"patch_head"` // Of patch tokens. "A 3-layer multilayer perceptron" may mean one projector for both; here each has its own.
	BF16       bool              `json:"bf16"`       // Compute the encoder in bfloat16, with float32 weights.
	Checkpoint bool              `json:"checkpoint"` // Compute the encoder's blocks a second time in the backward pass, to save memory.

	Views  views.MultiCrop `json:"views"`
	Canvas int             `json:"canvas"` // Height and width in pixels that images are read into; longer sides are shrunk to it.
	Batch  int             `json:"batch"`  // Images in a step, positives not counted; even with two sources of images.
	Steps  int             `json:"steps"`
	// Accumulate is the number of equal parts that a batch is computed in, one after the other, for a batch that does not fit at once. It
	// divides Batch. Statistics over a batch, Sinkhorn–Knopp's and L_proto's, are then each part's own.
	Accumulate int `json:"accumulate"`

	Rate          float64 `json:"rate"` // Learning rate of AdamW, on a cosine to FinalRate after a linear rise over Warmup steps.
	FinalRate     float64 `json:"final_rate"`
	Warmup        int     `json:"warmup"`
	Decay         float64 `json:"decay"` // Weight decay, on a cosine to FinalDecay; none on biases and norms.
	FinalDecay    float64 `json:"final_decay"`
	Momentum      float64 `json:"momentum"` // β of the target branch, on a cosine to FinalMomentum.
	FinalMomentum float64 `json:"final_momentum"`
	Clip          float64 `json:"clip"` // Greatest length of the gradient; 0 for any.

	// Lambdas weigh the losses. A loss of weight 0 is not computed: the rows of the ablation are such configurations, see [Ablation].
	Lambdas            losses.Lambdas  `json:"lambdas"`
	PatchConcentration string          `json:"patch_concentration"` // [WithCoTAP] or [WithBCE].
	CoTAP              losses.CoTAP    `json:"cotap"`
	Correspondences    Correspondences `json:"correspondences"`
	Temperature        float64         `json:"temperature"` // Of the online branch's softmax.
	Sinkhorn           Sinkhorn        `json:"sinkhorn"`
	Tau3               float64         `json:"tau3"`       // Temperature of L_proto.
	Neighbours         int             `json:"neighbours"` // k of the nearest images that positives are drawn from.

	// GaugeEvery is the number of steps between measurements of spread and rank.
	GaugeEvery int `json:"gauge_every"`
}

// The losses of patch concentration.
const (
	WithCoTAP = "cotap"
	WithBCE   = "bce" // The paper's first attempt, on the same pairs.
)

// Correspondences say where the maps S_o and S_t come from.
type Correspondences struct {
	// From is "head" for the projected features f, as the paper has it, "backbone" for the patch tokens that go into the head, or "labels":
	// S_o from the head, and in place of S_t, 1 for two patches of one class and 0 for others. Labels are for experiments on what the target
	// branch's quality means.
	From string `json:"from"`
	// SameView takes S_t from the view that S_o is from. The paper's text has both: S_t(v1(u), v1(v)) where it introduces pseudo labels,
	// S_t(v2(u), v2(v)) where it uses them, which is the default.
	SameView bool `json:"same_view"`
	// Noise in [0, 1] is the share of pairs whose label is replaced by a number drawn evenly from [0, 1]. The area under the ROC curve is then
	// 1 − Noise²/2.
	Noise float64 `json:"noise"`
}

// Where correspondences come from.
const (
	FromHead     = "head"
	FromBackbone = "backbone"
	FromLabels   = "labels"
)

// Default is the paper's configuration ("Network architecture", "Optimization strategy"). What it leaves open is as in DINO, or as
// errata.md names it; but Clip, the paper's silence on which is filled with DINO's number, limits the length of the whole gradient, where DINO
// limits each parameter's.
func Default() Config {
	return Config{
		Encoder: "vit-s16", Positions: encoder.DINOPositions, Prototypes: 64,
		ImageHead: heads.DefaultProjector(), PatchHead: heads.DefaultProjector(),
		Views: views.DefaultMultiCrop(), Canvas: 512, Batch: 256, Steps: 100_000, Accumulate: 1,
		Rate: 3e-5, FinalRate: 1e-6, Decay: 0.024, FinalDecay: 0.24, Momentum: 0.9997, FinalMomentum: 1, Clip: 3,
		Lambdas: losses.DefaultLambdas(), PatchConcentration: WithCoTAP, CoTAP: losses.DefaultCoTAP(),
		Correspondences: Correspondences{From: FromHead},
		Temperature:     0.1, Sinkhorn: DefaultSinkhorn(), Tau3: 0.1, Neighbours: knn.DefaultK,
		GaugeEvery: 50,
	}
}

// Check returns an error that names the first field out of range.
func (c Config) Check() error {
	if _, err := encoder.ViTByName(c.Encoder); err != nil {
		return err
	}
	if err := c.Positions.Check(); err != nil {
		return err
	}
	for _, field := range []struct {
		name             string
		value, low, high float64
	}{
		{"prototypes", float64(c.Prototypes), 0, math.MaxInt32},
		{"image_head.hidden", float64(c.ImageHead.HiddenDim), 1, math.MaxInt32}, {"image_head.out", float64(c.ImageHead.OutDim), 2, math.MaxInt32},
		{"patch_head.hidden", float64(c.PatchHead.HiddenDim), 1, math.MaxInt32}, {"patch_head.out", float64(c.PatchHead.OutDim), 2, math.MaxInt32},
		{"views.Globals", float64(c.Views.Globals), 2, math.MaxInt32},
		{"canvas", float64(c.Canvas), 1, math.MaxInt32}, {"batch", float64(c.Batch), 2, math.MaxInt32},
		{"steps", float64(c.Steps), 1, math.MaxInt32}, {"accumulate", float64(c.Accumulate), 1, float64(c.Batch)},
		{"rate", c.Rate, 0, math.MaxFloat32}, {"final_rate", c.FinalRate, 0, math.MaxFloat32},
		{"warmup", float64(c.Warmup), 0, float64(c.Steps - 1)},
		{"decay", c.Decay, 0, math.MaxFloat32}, {"final_decay", c.FinalDecay, 0, math.MaxFloat32},
		{"momentum", c.Momentum, 0, 1}, {"final_momentum", c.FinalMomentum, 0, 1}, {"clip", c.Clip, 0, math.MaxFloat32},
		{"lambdas.patch_alignment", c.Lambdas.PatchAlignment, 0, math.MaxFloat32},
		{"lambdas.image_alignment", c.Lambdas.ImageAlignment, 0, math.MaxFloat32},
		{"lambdas.patch_concentration", c.Lambdas.PatchConcentration, 0, math.MaxFloat32},
		{"lambdas.image_concentration", c.Lambdas.ImageConcentration, 0, math.MaxFloat32},
		{"lambdas.prototypes", c.Lambdas.Prototypes, 0, math.MaxFloat32},
		{"correspondences.noise", c.Correspondences.Noise, 0, 1},
		{"temperature", c.Temperature, 1e-3, math.MaxFloat32}, {"tau3", c.Tau3, 1e-3, math.MaxFloat32},
		{"neighbours", float64(c.Neighbours), 1, math.MaxInt32}, {"gauge_every", float64(c.GaugeEvery), 1, math.MaxInt32},
	} {
		if !(field.low <= field.value && field.value <= field.high) {
			return fmt.Errorf("%s %v is not between %v and %v", field.name, field.value, field.low, field.high)
		}
	}
	vit := c.vit()
	switch {
	case c.Batch%c.Accumulate != 0:
		return fmt.Errorf("accumulate %d does not divide batch %d", c.Accumulate, c.Batch)
	case c.Views.GlobalCropSize%vit.PatchSize != 0 || c.Views.GlobalCropSize < vit.PatchSize:
		return fmt.Errorf("views.GlobalSize %d is not made of %s's patches of %d", c.Views.GlobalCropSize, c.Encoder, vit.PatchSize)
	case c.Views.Locals > 0 && (c.Views.LocalCropSize%vit.PatchSize != 0 || c.Views.LocalCropSize < vit.PatchSize):
		return fmt.Errorf("views.LocalSize %d is not made of %s's patches of %d", c.Views.LocalCropSize, c.Encoder, vit.PatchSize)
	case !slices.Contains([]string{WithCoTAP, WithBCE}, c.PatchConcentration):
		return fmt.Errorf("patch_concentration %q: there are %s and %s", c.PatchConcentration, WithCoTAP, WithBCE)
	case !slices.Contains([]string{FromHead, FromBackbone, FromLabels}, c.Correspondences.From):
		return fmt.Errorf("correspondences.from %q: there are %s, %s and %s", c.Correspondences.From, FromHead, FromBackbone, FromLabels)
	case c.Prototypes == 0 && c.Lambdas.Prototypes > 0:
		return fmt.Errorf("lambdas.prototypes %v without prototypes", c.Lambdas.Prototypes)
	case !c.hasPatchLoss() && !c.hasImageLoss():
		return fmt.Errorf("lambdas: no loss of images or patches is left")
	}
	for _, err := range []error{c.Views.Check(), c.CoTAP.Check(), c.Sinkhorn.Check()} {
		if err != nil {
			return err
		}
	}
	return nil
}

// hasPatchLoss tells whether scenes have a part in the losses.
func (c Config) hasPatchLoss() bool {
	return c.Lambdas.PatchAlignment > 0 || c.Lambdas.PatchConcentration > 0
}

// hasImageLoss tells whether [CLS] tokens have a part in the losses.
func (c Config) hasImageLoss() bool {
	return c.Lambdas.ImageAlignment > 0 || c.Lambdas.ImageConcentration > 0
}

// fromLabels tells whether a loss takes labels.
func (c Config) fromLabels() bool {
	return c.Lambdas.PatchConcentration > 0 && c.Correspondences.From == FromLabels
}

// vit is the encoder of a configuration that has been checked.
func (c Config) vit() encoder.ViT {
	v, err := encoder.ViTByName(c.Encoder)
	if err != nil {
		panic(err)
	}
	v.Positions, v.Prototypes, v.GradientCheckpointing = c.Positions, c.Prototypes, c.Checkpoint
	if c.BF16 {
		v.ComputeDType = dtypes.BFloat16
	}
	return v
}

// schedule returns the rate, decay and β of a step, in [0, Steps).
func (c Config) schedule(step int) (rate, decay, momentum float64) {
	return optim.Cosine(step, c.Steps, c.Warmup, c.Rate, c.FinalRate),
		optim.Cosine(step, c.Steps, 0, c.Decay, c.FinalDecay),
		optim.Cosine(step, c.Steps, 0, c.Momentum, c.FinalMomentum)
}

// shape is what of a configuration the compiled step depends on; the rest are inputs of the step.
func (c Config) shape() Config {
	c.Steps, c.Warmup, c.GaugeEvery, c.Neighbours = 0, 0, 0, 0
	c.Rate, c.FinalRate, c.Decay, c.FinalDecay, c.Momentum, c.FinalMomentum = 0, 0, 0, 0, 0, 0
	c.Views.Global, c.Views.Local, c.Views.MinOverlap = views.Recipe{}, views.Recipe{}, 0
	c.Correspondences.Noise = 0
	for _, weight := range []*float64{&c.Lambdas.PatchAlignment, &c.Lambdas.ImageAlignment, &c.Lambdas.PatchConcentration,
		&c.Lambdas.ImageConcentration, &c.Lambdas.Prototypes} {
		if *weight > 0 {
			*weight = 1
		}
	}
	return c
}

// Ablation is one of the seven lines of Tab. ablation: which parts of the method are on.
type Ablation struct {
	Line int
	Name string
	// The losses λ̄1, λ1, λ̄2, λ2, and the Object-Aware Filter with L_proto.
	ImageAlignment, PatchAlignment, ImageConcentration, PatchConcentration, Filter bool
}

// Ablations are the lines in the paper's order.
var Ablations = []Ablation{
	{Line: 1, Name: "image alignment", ImageAlignment: true},
	{Line: 2, Name: "patch alignment", PatchAlignment: true},
	{Line: 3, Name: "both alignments", ImageAlignment: true, PatchAlignment: true},
	{Line: 4, Name: "image alignment + concentration", ImageAlignment: true, ImageConcentration: true},
	{Line: 5, Name: "patch alignment + concentration", PatchAlignment: true, PatchConcentration: true},
	{Line: 6, Name: "all losses", ImageAlignment: true, PatchAlignment: true, ImageConcentration: true, PatchConcentration: true},
	{Line: 7, Name: "all losses + filter", ImageAlignment: true, PatchAlignment: true, ImageConcentration: true, PatchConcentration: true, Filter: true},
}

// Config switches what the line leaves out off in a configuration that has everything on.
func (a Ablation) Config(all Config) Config {
	for _, part := range []struct {
		on     bool
		weight *float64
	}{
		{a.ImageAlignment, &all.Lambdas.ImageAlignment}, {a.PatchAlignment, &all.Lambdas.PatchAlignment},
		{a.ImageConcentration, &all.Lambdas.ImageConcentration}, {a.PatchConcentration, &all.Lambdas.PatchConcentration},
		{a.Filter, &all.Lambdas.Prototypes},
	} {
		if !part.on {
			*part.weight = 0
		}
	}
	if !a.Filter {
		all.Prototypes = 0
	}
	return all
}
