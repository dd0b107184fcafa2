package sccore

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/heads"
	"github.com/semcon/semcon/sccore/knn"
	"github.com/semcon/semcon/sccore/optim"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/views"
)

// Config holds everything that shapes a training run except its data, its seed and its initial weights. Start from [Default].
type Config struct {
	Encoder               string            `json:"encoder"`                      // Name of the vision transformer: vit-s16, vit-b16, vit-b8, vit-tiny, or a name made of parts such as vit-l14-grid37-reg4-ls.
	Positions             encoder.Positions `json:"positions"`                    // How position embeddings are resized for local views: as in dino, timm or transformers.
	Prototypes            int               `json:"prototypes"`                   // The Object-Aware Filter's prototypes; 0 for no filter.
	BlocksAfterFilter     int               `json:"blocks_after_filter,omitzero"` // Number of blocks after the one that has the filter: 0 for the last block. With 1 or more [CLS] attends to filtered patches.
	ImageHead             heads.Projector   `json:"image_head"`                   // Projects [CLS] tokens.
	PatchHead             heads.Projector   `json:"patch_head"`                   // Projects patch tokens. The paper's "3-layer multilayer perceptron" may be one projector for both; here each has its own.
	BF16                  bool              `json:"bf16"`                         // Compute the encoder in bfloat16, with float32 weights.
	GradientCheckpointing bool              `json:"checkpoint"`                   // Compute the encoder's blocks again in the backward pass, to save memory.

	Views     views.MultiCrop `json:"views"`
	ImageSize int             `json:"canvas"` // Height and width in pixels of the canvas that images are read into; larger images are shrunk to fit.
	Batch     int             `json:"batch"`  // Images per step, not counting positives; even with two sources of images.
	Steps     int             `json:"steps"`
	// AccumulationSteps splits a batch that does not fit in memory into this many equal parts, computed one after the other. It divides Batch. Batch
	// statistics, those of Sinkhorn–Knopp and of L_proto, are then taken per part.
	AccumulationSteps int `json:"accumulate"`

	LearningRate        float64 `json:"rate"` // Peak learning rate of AdamW: a linear warmup over WarmupSteps steps, then a cosine to FinalLearningRate.
	FinalLearningRate   float64 `json:"final_rate"`
	WarmupSteps         int     `json:"warmup"`
	WeightDecay         float64 `json:"decay"` // Weight decay at the first step, a cosine to FinalWeightDecay; biases and norms do not decay.
	FinalWeightDecay    float64 `json:"final_decay"`
	TargetMomentum      float64 `json:"momentum"` // Momentum β of the target branch at the first step, a cosine to FinalTargetMomentum.
	FinalTargetMomentum float64 `json:"final_momentum"`
	GradientClip        float64 `json:"clip"` // Largest norm of the gradient; 0 for no clipping.

	// Lambdas weight the losses. A loss of weight 0 is not computed: the rows of the ablation are such configurations, see [Ablation].
	Lambdas              losses.Lambdas  `json:"lambdas"`
	LambdaBy             string          `json:"lambda_by,omitzero"`  // Empty: lambdas are the weights of the losses. "gradient": those of concentration are shares of the length of alignment's gradient.
	PatchConcentration   string          `json:"patch_concentration"` // The loss of patch concentration: cotap, bce, gram, paka, neco, fastap or smoothap.
	CoTAP                losses.CoTAP    `json:"cotap"`
	Correspondences      Correspondences `json:"correspondences"`
	Teacher              Teacher         `json:"teacher,omitzero"` // The third branch of correspondences from a teacher.
	Temperature          float64         `json:"temperature"`      // Temperature of the online branch's softmax.
	Sinkhorn             Sinkhorn        `json:"sinkhorn"`
	PrototypeTemperature float64         `json:"tau3"`       // Temperature τ3 of L_proto.
	Neighbours           int             `json:"neighbours"` // Number of nearest images that a positive is drawn from.

	// MetricsEvery is the number of steps between two measurements of spread and rank.
	MetricsEvery int `json:"gauge_every"`
}

// The losses of patch concentration.
const (
	WithCoTAP = "cotap"
	WithBCE   = "bce" // The paper's first attempt, on the same pairs.
)

// Correspondences say where the correspondence maps S_o and S_t come from.
type Correspondences struct {
	// From is "head" for the projected features f, as in the paper; "backbone" for the patch tokens that go into the head; or "labels", which takes
	// S_o from the head and replaces S_t by 1 for two patches of the same class and 0 otherwise; or "teacher" for the projected features of a frozen third
	// branch. Labels and teacher are for experiments on how much the quality of S_t matters.
	From string `json:"from"`
	// SameView takes S_t from the same view as S_o. The paper's text has both: S_t(v1(u), v1(v)) where it introduces pseudo labels, and S_t(v2(u),
	// v2(v)) where it uses them, which is the default.
	SameView bool `json:"same_view"`
	// Noise in [0, 1] is the share of pairs whose label is replaced by a number drawn uniformly from [0, 1]. The area under the ROC curve is then 1 −
	// Noise²/2.
	Noise float64 `json:"noise"`
	// Fixed draws Noise once for each pair of places, cells of 8 pixels of two images, and not anew in each step. Errors of a teacher are of this kind: they do
	// not average out.
	Fixed bool `json:"fixed,omitzero"`
}

// Where correspondences come from.
const (
	FromHead     = "head"
	FromBackbone = "backbone"
	FromLabels   = "labels"
	FromTeacher  = "teacher"
)

// Default is the paper's configuration ("Network architecture", "Optimization strategy"). What the paper leaves open is as in DINO or as errata.md
// says. GradientClip has DINO's value but limits the norm of the whole gradient, where DINO limits each parameter's.
func Default() Config {
	return Config{
		Encoder: "vit-s16", Positions: encoder.DINOPositions, Prototypes: 64,
		ImageHead: heads.DefaultProjector(), PatchHead: heads.DefaultProjector(),
		Views: views.DefaultMultiCrop(), ImageSize: 512, Batch: 256, Steps: 100_000, AccumulationSteps: 1,
		LearningRate: 3e-5, FinalLearningRate: 1e-6, WeightDecay: 0.024, FinalWeightDecay: 0.24, TargetMomentum: 0.9997, FinalTargetMomentum: 1, GradientClip: 3,
		Lambdas: losses.DefaultLambdas(), PatchConcentration: WithCoTAP, CoTAP: losses.DefaultCoTAP(),
		Correspondences: Correspondences{From: FromHead},
		Temperature:     0.1, Sinkhorn: DefaultSinkhorn(), PrototypeTemperature: 0.1, Neighbours: knn.DefaultK,
		MetricsEvery: 50,
	}
}

// maxReal bounds learning rates, weights of losses and temperatures; larger ones overflow in float32 once they are multiplied.
const maxReal = 1e6

// Check returns an error that names the first field that is out of range.
func (c Config) Check() error {
	if _, err := encoder.ViTByName(c.Encoder); err != nil {
		return fmt.Errorf("encoder: %w", err)
	}
	if err := c.Positions.Check(); err != nil {
		return err
	}
	for _, field := range []struct {
		name             string
		value, low, high float64
	}{
		{"prototypes", float64(c.Prototypes), 0, 1 << 14},
		{"image_head.hidden", float64(c.ImageHead.HiddenDim), 1, 1 << 14}, {"image_head.out", float64(c.ImageHead.OutDim), 2, 1 << 14},
		{"patch_head.hidden", float64(c.PatchHead.HiddenDim), 1, 1 << 14}, {"patch_head.out", float64(c.PatchHead.OutDim), 2, 1 << 14},
		{"views.Globals", float64(c.Views.Globals), 2, 16},
		{"canvas", float64(c.ImageSize), 1, 2 * settings.MaxImageSize}, {"batch", float64(c.Batch), 2, 1 << 16},
		{"steps", float64(c.Steps), 1, math.MaxInt32}, {"accumulate", float64(c.AccumulationSteps), 1, float64(c.Batch)},
		{"rate", c.LearningRate, 0, maxReal}, {"final_rate", c.FinalLearningRate, 0, maxReal},
		{"warmup", float64(c.WarmupSteps), 0, math.MaxInt32},
		{"decay", c.WeightDecay, 0, maxReal}, {"final_decay", c.FinalWeightDecay, 0, maxReal},
		{"momentum", c.TargetMomentum, 0, 1}, {"final_momentum", c.FinalTargetMomentum, 0, 1}, {"clip", c.GradientClip, 0, maxReal},
		{"lambdas.patch_alignment", c.Lambdas.PatchAlignment, 0, maxReal},
		{"lambdas.image_alignment", c.Lambdas.ImageAlignment, 0, maxReal},
		{"lambdas.patch_concentration", c.Lambdas.PatchConcentration, 0, maxReal},
		{"lambdas.image_concentration", c.Lambdas.ImageConcentration, 0, maxReal},
		{"lambdas.prototypes", c.Lambdas.Prototypes, 0, maxReal},
		{"correspondences.noise", c.Correspondences.Noise, 0, 1},
		{"temperature", c.Temperature, 1e-3, maxReal}, {"tau3", c.PrototypeTemperature, 1e-3, maxReal},
		{"neighbours", float64(c.Neighbours), 1, 1 << 16}, {"gauge_every", float64(c.MetricsEvery), 1, math.MaxInt32},
	} {
		if err := settings.Between(field.name, field.value, field.low, field.high); err != nil {
			return err
		}
	}
	vit := c.vit()
	switch {
	case c.BlocksAfterFilter < 0 || c.BlocksAfterFilter >= vit.Depth:
		return fmt.Errorf("blocks_after_filter %d: %s has %d blocks, want 0 to %d", c.BlocksAfterFilter, c.Encoder, vit.Depth, vit.Depth-1)
	case c.BlocksAfterFilter > 0 && c.Prototypes == 0:
		return fmt.Errorf("blocks_after_filter %d without prototypes", c.BlocksAfterFilter)
	case c.WarmupSteps >= c.Steps:
		return fmt.Errorf("warmup %d is not below steps %d", c.WarmupSteps, c.Steps)
	case c.Batch%c.AccumulationSteps != 0:
		return fmt.Errorf("accumulate %d does not divide batch %d", c.AccumulationSteps, c.Batch)
	case c.Views.GlobalCropSize%vit.PatchSize != 0 || c.Views.GlobalCropSize < vit.PatchSize:
		return fmt.Errorf("views.GlobalSize %d is not a multiple of %s's patch size %d, want %d",
			c.Views.GlobalCropSize, c.Encoder, vit.PatchSize, Nearest(c.Views.GlobalCropSize, vit.PatchSize))
	case c.Views.Locals > 0 && (c.Views.LocalCropSize%vit.PatchSize != 0 || c.Views.LocalCropSize < vit.PatchSize):
		return fmt.Errorf("views.LocalSize %d is not a multiple of %s's patch size %d, want %d",
			c.Views.LocalCropSize, c.Encoder, vit.PatchSize, Nearest(c.Views.LocalCropSize, vit.PatchSize))
	case !slices.Contains([]string{FromHead, FromBackbone, FromLabels, FromTeacher}, c.Correspondences.From):
		return fmt.Errorf("correspondences.from %q: want %s, %s, %s or %s", c.Correspondences.From, FromHead, FromBackbone, FromLabels, FromTeacher)
	case c.Prototypes == 0 && c.Lambdas.Prototypes > 0:
		return fmt.Errorf("lambdas.prototypes %v without prototypes", c.Lambdas.Prototypes)
	case !c.hasPatchLoss() && !c.hasImageLoss():
		return errors.New("lambdas: every loss of images and patches is off: patch_alignment, image_alignment, patch_concentration and image_concentration are 0")
	}
	return cmp.Or(c.checkSource(), c.checkLambdas(), c.Views.Check(), c.CoTAP.Check(), c.Sinkhorn.Check(), c.fits())
}

// fits returns an error if a part of a batch is too large for memory: its images, or the attention of its global views.
func (c Config) fits() error {
	vit, part := c.vit(), c.Batch/c.AccumulationSteps
	for _, crop := range []struct {
		views, size  int
		count, pixel string
	}{{c.Views.Globals, c.Views.GlobalCropSize, "Globals", "GlobalSize"}, {c.Views.Locals, c.Views.LocalCropSize, "Locals", "LocalSize"}} {
		tokens := 1 + (crop.size/vit.PatchSize)*(crop.size/vit.PatchSize)
		what := fmt.Sprintf("views.%s %d of views.%s %d, batch %d in accumulate %d parts: attention of %d tokens",
			crop.count, crop.views, crop.pixel, crop.size, c.Batch, c.AccumulationSteps, tokens)
		if err := settings.Fit(settings.MaxDeviceBytes, what, part, crop.views, vit.NumHeads, tokens, tokens, 4); err != nil {
			return err
		}
	}
	what := fmt.Sprintf("batch %d in accumulate %d parts of images of canvas %d", c.Batch, c.AccumulationSteps, c.ImageSize)
	return settings.Fit(settings.MaxBytes, what, part, c.ImageSize, c.ImageSize, 3)
}

// hasPatchLoss reports whether a loss uses patches, and with them scenes.
func (c Config) hasPatchLoss() bool {
	return c.Lambdas.PatchAlignment > 0 || c.Lambdas.PatchConcentration > 0
}

// hasImageLoss reports whether a loss uses [CLS] tokens.
func (c Config) hasImageLoss() bool {
	return c.Lambdas.ImageAlignment > 0 || c.Lambdas.ImageConcentration > 0
}

// fromLabels reports whether a loss uses labels.
func (c Config) fromLabels() bool {
	return c.Lambdas.PatchConcentration > 0 && c.Correspondences.From == FromLabels
}

// vit is the encoder of a checked configuration.
func (c Config) vit() encoder.ViT {
	v, err := encoder.ViTByName(c.Encoder)
	if err != nil {
		panic(err)
	}
	v.Positions, v.Prototypes, v.BlocksAfterFilter, v.GradientCheckpointing = c.Positions, c.Prototypes, c.BlocksAfterFilter, c.GradientCheckpointing
	if c.BF16 {
		v.ComputeDType = dtypes.BFloat16
	}
	return v
}

// schedule returns the learning rate, weight decay and β of a step in [0, Steps).
func (c Config) schedule(step int) (rate, decay, momentum float64) {
	return optim.Cosine(step, c.Steps, c.WarmupSteps, c.LearningRate, c.FinalLearningRate),
		optim.Cosine(step, c.Steps, 0, c.WeightDecay, c.FinalWeightDecay),
		optim.Cosine(step, c.Steps, 0, c.TargetMomentum, c.FinalTargetMomentum)
}

// shape keeps only what the compiled step depends on. The rest are inputs of the step.
func (c Config) shape() Config {
	c.Steps, c.WarmupSteps, c.MetricsEvery, c.Neighbours = 0, 0, 0, 0
	c.LearningRate, c.FinalLearningRate, c.WeightDecay, c.FinalWeightDecay, c.TargetMomentum, c.FinalTargetMomentum = 0, 0, 0, 0, 0, 0
	c.Views.Global, c.Views.Local, c.Views.MinOverlap = views.Recipe{}, views.Recipe{}, 0
	c.Correspondences.Noise, c.LambdaBy = 0, ""
	for _, weight := range []*float64{&c.Lambdas.PatchAlignment, &c.Lambdas.ImageAlignment, &c.Lambdas.PatchConcentration,
		&c.Lambdas.ImageConcentration, &c.Lambdas.Prototypes} {
		if *weight > 0 {
			*weight = 1
		}
	}
	return c
}

// Ablation is a line of Tab. ablation. It says which parts of the method are on.
type Ablation struct {
	Line int
	Name string
	// The losses of λ̄1, λ1, λ̄2 and λ2, and the Object-Aware Filter with L_proto.
	ImageAlignment, PatchAlignment, ImageConcentration, PatchConcentration, Filter bool
	// BlocksAfterFilter is that of [Config] if it is above 0. Lines with 0 leave the filter where it is.
	BlocksAfterFilter int
}

// Ablations are the paper's seven lines in its order.
var Ablations = []Ablation{
	{Line: 1, Name: "image alignment", ImageAlignment: true},
	{Line: 2, Name: "patch alignment", PatchAlignment: true},
	{Line: 3, Name: "both alignments", ImageAlignment: true, PatchAlignment: true},
	{Line: 4, Name: "image alignment + concentration", ImageAlignment: true, ImageConcentration: true},
	{Line: 5, Name: "patch alignment + concentration", PatchAlignment: true, PatchConcentration: true},
	{Line: 6, Name: "all losses", ImageAlignment: true, PatchAlignment: true, ImageConcentration: true, PatchConcentration: true},
	{Line: 7, Name: "all losses + filter", ImageAlignment: true, PatchAlignment: true, ImageConcentration: true, PatchConcentration: true, Filter: true},
}

// FilterEarlier is a line that the paper does not have: line 7 with the filter in the block before the last, so that the last attention lets [CLS] see it.
var FilterEarlier = Ablation{
	Line: 8, Name: "all losses + filter before the last attention", ImageAlignment: true, PatchAlignment: true, ImageConcentration: true, PatchConcentration: true, Filter: true,
	BlocksAfterFilter: 1,
}

// Config turns off, in a configuration with everything on, the parts that the line leaves out.
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
	switch {
	case !a.Filter:
		all.Prototypes, all.BlocksAfterFilter = 0, 0
	case a.BlocksAfterFilter > 0:
		all.BlocksAfterFilter = a.BlocksAfterFilter
	}
	return all
}

// Adapt returns the configuration with another encoder, and the nearest sizes of views that are made of its patches: views of 96 pixels become 98 for
// patches of 14.
func (c Config) Adapt(v encoder.ViT) Config {
	c.Encoder, c.Positions = v.Name, v.Positions
	c.Views.GlobalCropSize = Nearest(c.Views.GlobalCropSize, v.PatchSize)
	c.Views.LocalCropSize = Nearest(c.Views.LocalCropSize, v.PatchSize)
	return c
}

// Nearest returns the multiple of patch, at least 1, that is nearest to a size. Of two it is the larger one.
func Nearest(size, patch int) int { return max((size+patch/2)/patch, 1) * patch }

// Sinkhorn is the Sinkhorn–Knopp algorithm SK of "Cross-view alignment" (Cuturi 2013). It turns the target branch's outputs into targets:
// distributions over the D entries of an output that are sharp one by one and uniform on average.
type Sinkhorn struct {
	Iterations int     `json:"iterations"` // Iterations of Sinkhorn–Knopp, at least 1.
	Epsilon    float64 `json:"epsilon"`    // Temperature, above 0; a lower one gives sharper targets.
}

// DefaultSinkhorn returns 3 iterations at ε = 0.05, as in SwAV, DINO and Leopart; the paper gives neither.
func DefaultSinkhorn() Sinkhorn { return Sinkhorn{Iterations: 3, Epsilon: 0.05} }

// Check returns an error that names the setting that is out of range.
func (s Sinkhorn) Check() error {
	if err := cmp.Or(settings.Between("iterations", s.Iterations, 1, 1000), settings.Above("epsilon", s.Epsilon, 1e6)); err != nil { // The graph has a step for each iteration.
		return fmt.Errorf("sinkhorn: %w", err)
	}
	return nil
}

// Targets returns distributions q, [N, D], for scores, [N, D]: each row sums to 1, and each column to about N/D. An iteration scales columns to equal
// sums, then rows, starting from exp(scores/ε). Sums run over all N rows: the whole batch, and for patches all patches of it. By E2 the scores are
// the target branch's; no gradient passes. [losses.SinkhornKnopp] is the algorithm.
func (s Sinkhorn) Targets(scores *Node) *Node {
	return losses.SinkhornKnopp(DivScalar(scores, s.Epsilon), nil, s.Iterations)
}
