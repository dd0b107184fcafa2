// Package sccore is the paper's method ("Methodology").
//
// It takes a [Config] and [Data] and returns a [Trainer] of the two branches. Every step reports [StepMetrics], and
// [Trainer.SaveEncoder] writes an encoder. The step's graph is built from views, encoder, heads and losses; package train runs it.
// A new loss needs a weight in losses.Lambdas, a field in StepMetrics, a line in [Losses], and its places in step.pass and weightedSum.
package sccore

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/dsnet/try"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/samber/lo"
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
	Encoder               string            `json:"encoder"`                                  // Name of the vision transformer: vit-s16, vit-b16, vit-b8, vit-tiny, or a name made of parts such as vit-l14-grid37-reg4-ls.
	Positions             encoder.Positions `json:"positions" oneof:"dino|timm|transformers"` // How position embeddings are resized for local views: as in dino, timm or transformers.
	Prototypes            int               `json:"prototypes" range:"[0,2^14]"`              // The Object-Aware Filter's prototypes; 0 for no filter.
	Filter                encoder.Filter    `json:"filter,omitzero" oneof:"|frozen|block"`    // What stands in the filter's place: frozen for prototypes that keep their initial values, block for a residual block of as many parameters. Neither has L_proto.
	BlocksAfterFilter     int               `json:"blocks_after_filter,omitzero"`             // Number of blocks after the one that has the filter: 0 for the last block. With 1 or more [CLS] attends to filtered patches.
	ImageHead             heads.Projector   `json:"image_head"`                               // Projects [CLS] tokens.
	PatchHead             heads.Projector   `json:"patch_head"`                               // Projects patch tokens. The paper's "3-layer multilayer perceptron" may be one projector for both; here each has its own.
	BF16                  bool              `json:"bf16"`                                     // Compute the encoder in bfloat16, with float32 weights.
	GradientCheckpointing bool              `json:"checkpoint"`                               // Compute the encoder's blocks again in the backward pass, to save memory.

	Views     views.MultiCrop `json:"views"`
	ImageSize int             `json:"canvas" range:"[1,4096]"` // Height and width in pixels of the canvas that images are read into; larger images are shrunk to fit.
	Batch     int             `json:"batch" range:"[2,2^16]"`  // Images per step, not counting positives; even with two sources of images.
	Steps     int             `json:"steps" range:"[1,2^31)"`
	// AccumulationSteps splits a batch that does not fit in memory into this many equal parts, computed one after the other. It divides Batch. Batch
	// statistics (Sinkhorn–Knopp, L_proto) are then taken per part.
	AccumulationSteps int `json:"accumulate" range:"[1,2^16]"`

	LearningRate      float64 `json:"rate" range:"[0,1e6]"` // Peak learning rate of AdamW: a linear warmup over WarmupSteps steps, then a cosine to FinalLearningRate.
	FinalLearningRate float64 `json:"final_rate" range:"[0,1e6]"`
	WarmupSteps       int     `json:"warmup" range:"[0,2^31)"`
	WeightDecay       float64 `json:"decay" range:"[0,1e6]"` // Weight decay at the first step, a cosine to FinalWeightDecay; biases and norms do not decay.
	FinalWeightDecay  float64 `json:"final_decay" range:"[0,1e6]"`
	// TargetMomentum is the momentum β of the target branch at the first step, a cosine to FinalTargetMomentum. Unless it is set, it follows from the number of
	// steps in semcon train, and from those of the second stage in experiments.
	TargetMomentum      float64 `json:"momentum" range:"[0,1]"`
	FinalTargetMomentum float64 `json:"final_momentum" range:"[0,1]"`
	GradientClip        float64 `json:"clip" range:"[0,1e6]"` // Largest norm of the gradient; 0 for no clipping.

	// Lambdas weight the losses. A loss of weight 0 is not computed: the rows of the ablation are such configurations, see [Ablation].
	Lambdas              losses.Lambdas  `json:"lambdas"`
	LambdaBy             string          `json:"lambda_by,omitzero" oneof:"|gradient"`                                 // Empty: lambdas are the weights of the losses. "gradient": those of concentration are shares of the length of alignment's gradient.
	PatchConcentration   string          `json:"patch_concentration" oneof:"cotap|bce|gram|paka|neco|fastap|smoothap"` // The loss of patch concentration: cotap, bce, gram, paka, neco, fastap or smoothap.
	CoTAP                losses.CoTAP    `json:"cotap"`
	Correspondences      Correspondences `json:"correspondences"`
	Teacher              Teacher         `json:"teacher,omitzero"`               // The third branch of correspondences from a teacher.
	Temperature          float64         `json:"temperature" range:"[1e-3,1e6]"` // Temperature of the online branch's softmax.
	Sinkhorn             Sinkhorn        `json:"sinkhorn"`
	PrototypeTemperature float64         `json:"tau3" range:"[1e-3,1e6]"`     // Temperature τ3 of L_proto.
	Neighbours           int             `json:"neighbours" range:"[1,2^16]"` // Number of nearest images that a positive is drawn from.

	// MetricsEvery is the number of steps between two measurements of spread and rank.
	MetricsEvery int `json:"gauge_every" range:"[1,2^31)"`

	// MemoryGB is the memory in GB that weights, gradients and the optimizer's state may take; 0 for what the machine has.
	MemoryGB float64 `json:"memory_gb,omitzero" range:"[0,1e6]"`
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
	From string `json:"from" oneof:"head|backbone|labels|teacher"`
	// SameView takes S_t from the same view as S_o. The paper's text has both: S_t(v1(u), v1(v)) where it introduces pseudo labels, and S_t(v2(u),
	// v2(v)) where it uses them, which is the default.
	SameView bool `json:"same_view"`
	// Noise is the share of pairs whose label is replaced by a number drawn uniformly from [0, 1]. The area under the ROC curve is then 1 − Noise²/2.
	Noise float64 `json:"noise" range:"[0,1]"`
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

// Default is the paper's configuration ("Network architecture", "Optimization strategy"). What the paper leaves open is as in DINO or as docs/theory.md
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

// Rules returns an error that names the first fields that contradict each other; see [settings.Check].
func (c Config) Rules() error {
	if _, err := encoder.ViTByName(c.Encoder); err != nil {
		return fmt.Errorf("encoder: %w", err)
	}
	vit := c.ViT()
	switch l := c.Lambdas; {
	case c.BlocksAfterFilter < 0 || c.BlocksAfterFilter >= vit.Depth:
		return fmt.Errorf("blocks_after_filter %d: %s has %d blocks, want 0 to %d", c.BlocksAfterFilter, c.Encoder, vit.Depth, vit.Depth-1)
	case c.BlocksAfterFilter > 0 && c.Prototypes == 0:
		return fmt.Errorf("blocks_after_filter %d without prototypes", c.BlocksAfterFilter)
	case c.Filter != encoder.ObjectAware && (c.Prototypes == 0 || l.Prototypes > 0):
		return fmt.Errorf("filter %s with %d prototypes and lambdas.prototypes %g: want prototypes, which say how large it is, and lambdas.prototypes 0, as none learn", c.Filter, c.Prototypes, l.Prototypes)
	case c.WarmupSteps >= c.Steps:
		return fmt.Errorf("warmup %d is not below steps %d", c.WarmupSteps, c.Steps)
	case c.Batch%c.AccumulationSteps != 0:
		return fmt.Errorf("accumulate %d does not divide batch %d", c.AccumulationSteps, c.Batch)
	case c.Views.Globals < 2:
		return fmt.Errorf("views.globals %d: a view is aligned with another one, want at least 2", c.Views.Globals)
	case c.Views.Independent && c.hasPatchLoss():
		return errors.New("views.independent: losses of patches compare what views share, and independent views may share nothing")
	case c.Prototypes == 0 && l.Prototypes > 0:
		return fmt.Errorf("lambdas.prototypes %v without prototypes", l.Prototypes)
	case !c.hasPatchLoss() && !c.hasImageLoss():
		return errors.New("lambdas: every loss of images and patches is off: patch_alignment, image_alignment, patch_concentration and image_concentration are 0")
	case c.LambdaBy == ByGradient && l.PatchConcentration > 0 && l.PatchAlignment == 0:
		return errors.New("lambda_by gradient: lambdas.patch_concentration is a share of patch_alignment, which is 0")
	case c.LambdaBy == ByGradient && l.ImageConcentration > 0 && l.ImageAlignment == 0:
		return errors.New("lambda_by gradient: lambdas.image_concentration is a share of image_alignment, which is 0")
	}
	part := fmt.Sprintf("batch %d in accumulate %d parts", c.Batch, c.AccumulationSteps)
	return cmp.Or(c.checkSource(), CheckViews(c.Views, vit, c.Batch/c.AccumulationSteps, c.ImageSize, part))
}

// CheckViews returns an error if views are not made of an encoder's patches, or if a part of a batch is too large for memory: its images, of imageSize pixels, or
// the attention of its views. what names the settings that the part follows from.
func CheckViews(v views.MultiCrop, vit encoder.ViT, part, imageSize int, what string) (err error) {
	defer try.Handle(&err)
	type crops struct {
		views, size  int
		count, pixel string
	}
	all := []crops{{v.Globals, v.GlobalCropSize, "globals", "global_size"}, {v.Locals, v.LocalCropSize, "locals", "local_size"}}
	all = lo.Filter(all, func(c crops, _ int) bool { return c.views > 0 })
	wrong := lo.FilterMap(all, func(c crops, _ int) (string, bool) {
		err := vit.CheckSize("views."+c.pixel, c.size)
		return fmt.Sprint(err), err != nil
	})
	if len(wrong) > 0 { // All are to be mended.
		return errors.New(strings.Join(wrong, "; "))
	}
	for _, c := range all {
		tokens := 1 + (c.size/vit.PatchSize)*(c.size/vit.PatchSize)
		attention := fmt.Sprintf("views.%s %d of views.%s %d, %s: attention of %d tokens", c.count, c.views, c.pixel, c.size, what, tokens)
		try.E(settings.Fit(settings.MaxDeviceBytes, attention, part, c.views, vit.NumHeads, tokens, tokens, 4))
	}
	return settings.Fit(settings.MaxBytes, fmt.Sprintf("%s of images of canvas %d", what, imageSize), part, imageSize, imageSize, 3)
}

// hasPatchLoss reports whether a loss uses patches, and with them scenes.
func (c Config) hasPatchLoss() bool {
	return c.Lambdas.PatchAlignment > 0 || c.Lambdas.PatchConcentration > 0
}

// hasImageLoss reports whether a loss uses [CLS] tokens.
func (c Config) hasImageLoss() bool {
	return c.Lambdas.ImageAlignment > 0 || c.Lambdas.ImageConcentration > 0
}

// ViT is the encoder of a configuration that [settings.Check] accepts.
func (c Config) ViT() encoder.ViT {
	v, err := encoder.ViTByName(c.Encoder)
	if err != nil {
		panic(err)
	}
	v.Positions, v.Prototypes, v.Filter, v.BlocksAfterFilter, v.GradientCheckpointing = c.Positions, c.Prototypes, c.Filter, c.BlocksAfterFilter, c.GradientCheckpointing
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

// MomentumOver returns the momentum β of a target branch that remembers a share of a run: its horizon, 1/(1−β) steps, is share·steps, at least one and
// at most 10,000, since 1 would keep the branch as it is. The paper's 0.9997 over 100,000 steps is a thirtieth.
func MomentumOver(share float64, steps int) float64 {
	return min(math.Round(1e4*(1-1/max(share*float64(steps), 1)))/1e4, 0.9999)
}

// shape keeps only what the compiled step depends on. The rest are inputs of the step.
func (c Config) shape() Config {
	c.Steps, c.WarmupSteps, c.MetricsEvery, c.Neighbours = 0, 0, 0, 0
	c.LearningRate, c.FinalLearningRate, c.WeightDecay, c.FinalWeightDecay, c.TargetMomentum, c.FinalTargetMomentum = 0, 0, 0, 0, 0, 0
	c.Views.Global, c.Views.Local, c.Views.MinOverlap = views.Recipe{}, views.Recipe{}, 0
	c.Correspondences.Noise, c.LambdaBy, c.MemoryGB = 0, "", 0
	for _, loss := range Losses {
		if weight := loss.lambda(&c.Lambdas); *weight > 0 {
			*weight = 1
		}
	}
	return c
}

// Ablation is a line of Tab. ablation. It says which parts of the method are on.
type Ablation struct {
	Line   int
	Name   string
	On     losses.Lambdas // 1 for the losses that are on, 0 for the others.
	Filter bool           // The Object-Aware Filter is on.
	// BlocksAfterFilter replaces the setting of [Config] if it is above 0.
	BlocksAfterFilter int
	FilterAs          encoder.Filter // What stands in the filter's place.
}

// Ablations are the paper's seven lines in its order.
var Ablations = []Ablation{
	{Line: 1, Name: "image alignment", On: losses.Lambdas{ImageAlignment: 1}},
	{Line: 2, Name: "patch alignment", On: losses.Lambdas{PatchAlignment: 1}},
	{Line: 3, Name: "both alignments", On: losses.Lambdas{ImageAlignment: 1, PatchAlignment: 1}},
	{Line: 4, Name: "image alignment + concentration", On: losses.Lambdas{ImageAlignment: 1, ImageConcentration: 1}},
	{Line: 5, Name: "patch alignment + concentration", On: losses.Lambdas{PatchAlignment: 1, PatchConcentration: 1}},
	{Line: 6, Name: "all losses", On: withoutProto},
	{Line: 7, Name: "all losses + filter", On: losses.DefaultLambdas(), Filter: true},
}

// withoutProto has all losses but L_proto on.
var withoutProto = losses.Lambdas{PatchAlignment: 1, ImageAlignment: 1, PatchConcentration: 1, ImageConcentration: 1}

// FilterAblations are lines that the paper does not have, with what differs from line 7: the filter in the block before the last, so that the last attention lets
// [CLS] see it; what else may give the filter's gain in its place; and the filter without its loss.
var FilterAblations = []Ablation{
	{Line: 8, Name: "the filter before the last attention", On: losses.DefaultLambdas(), Filter: true, BlocksAfterFilter: 1},
	{Line: 9, Name: "a residual block of as many parameters for the filter", On: withoutProto, Filter: true, FilterAs: encoder.ResidualBlock},
	{Line: 10, Name: "the filter with frozen random prototypes", On: withoutProto, Filter: true, FilterAs: encoder.FrozenPrototypes},
	{Line: 11, Name: "the filter without L_proto", On: withoutProto, Filter: true},
}

// Config turns off, in a configuration with everything on, the parts that the line leaves out.
func (a Ablation) Config(all Config) Config {
	for _, loss := range Losses {
		*loss.lambda(&all.Lambdas) *= loss.Lambda(a.On)
	}
	switch {
	case !a.Filter:
		all.Prototypes, all.Filter, all.BlocksAfterFilter = 0, encoder.ObjectAware, 0
	case a.FilterAs != encoder.ObjectAware:
		all.Filter = a.FilterAs
	case a.BlocksAfterFilter > 0:
		all.BlocksAfterFilter = a.BlocksAfterFilter
	}
	return all
}

// Adapt returns the configuration with another encoder, and the nearest sizes of views that are made of its patches: views of 96 pixels become 98 for
// patches of 14.
func (c Config) Adapt(v encoder.ViT) Config {
	c.Encoder, c.Positions = v.Name, v.Positions
	c.Views.GlobalCropSize = v.NearestSize(c.Views.GlobalCropSize)
	c.Views.LocalCropSize = v.NearestSize(c.Views.LocalCropSize)
	return c
}

// Sinkhorn is the Sinkhorn–Knopp algorithm SK of "Cross-view alignment" (Cuturi 2013). It turns the target branch's outputs into targets:
// distributions over the D entries of an output that are sharp one by one and uniform on average.
type Sinkhorn struct {
	Iterations int     `json:"iterations" range:"[1,1000]"` // Iterations of Sinkhorn–Knopp, each a step of the graph.
	Epsilon    float64 `json:"epsilon" range:"(0,1e6]"`     // Temperature; a lower one gives sharper targets.
}

// DefaultSinkhorn returns 3 iterations at ε = 0.05, as in SwAV, DINO and Leopart; the paper gives neither.
func DefaultSinkhorn() Sinkhorn { return Sinkhorn{Iterations: 3, Epsilon: 0.05} }

// Targets returns distributions q, [N, D], for scores, [N, D]: each row sums to 1, and each column to about N/D. An iteration scales columns to equal
// sums, then rows, starting from exp(scores/ε). Sums run over all N rows: the whole batch, and for patches all patches of it. By E2 the scores are
// the target branch's; no gradient passes. [losses.SinkhornKnopp] is the algorithm.
func (s Sinkhorn) Targets(scores *Node) *Node {
	return losses.SinkhornKnopp(DivScalar(scores, s.Epsilon), nil, s.Iterations)
}
