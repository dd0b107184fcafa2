// Package selfdistillation trains encoders by DINO, iBOT and Mugs, from scratch or from a file: a student learns to predict its own moving average, the
// teacher, which sees other views of the same image.
//
// A [Config] and images go in; a [Trainer] of package train comes out. The losses are those of package losses. Of the authors' recipes, solarisation, the
// unlike blurs of two global views, and Mugs' strong augmentation are left out: views are those of package views. The next method gets a file with its
// loss and a case in step.loss.
package selfdistillation

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/heads"
	"github.com/semcon/semcon/sccore/optim"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/views"
)

// The methods' names.
const (
	DINO = "dino" // Caron et al. 2021
	IBOT = "ibot" // Zhou et al. 2022, "iBOT"
	Mugs = "mugs" // Zhou et al. 2022, "Mugs"
)

// Names are the names of the methods, in the paper's order.
var Names = []string{DINO, IBOT, Mugs}

// How the teacher's distributions are kept from collapse.
const (
	Centred  = "centre"   // [losses.DINOTargets], as in the three papers.
	Sinkhorn = "sinkhorn" // [losses.SinkhornKnopp] with three iterations, as in DINOv2's form of DINO and iBOT.
)

// Config shapes a training run except its data, its seed and its initial weights. Fields that a method does not use are 0 in [Default].
type Config struct {
	Method                string            `json:"method"`     // The training method: dino, ibot or mugs.
	Encoder               string            `json:"encoder"`    // Name of the vision transformer: vit-s16, vit-b16, vit-b8, vit-tiny, or a name made of parts such as vit-l14-grid37-reg4-ls.
	Positions             encoder.Positions `json:"positions"`  // How position embeddings are resized for local views: as in dino, timm or transformers.
	BF16                  bool              `json:"bf16"`       // Compute the encoder in bfloat16, with float32 weights.
	GradientCheckpointing bool              `json:"checkpoint"` // Compute the encoder's blocks again in the backward pass, to save memory.
	DropPath              float64           `json:"drop_path"`  // Probability of stochastic depth in the student's last block; it rises linearly from 0 in the first.

	Head  heads.DINOHead  `json:"head"` // Of [CLS] tokens; iBOT's patches share it.
	Views views.MultiCrop `json:"views"`
	// ImageSize is the height and width in pixels of the canvas that images are read into; larger images are shrunk to fit.
	ImageSize int `json:"canvas"`
	Batch     int `json:"batch"` // Images per step; even with two sources of images.
	Steps     int `json:"steps"`
	// EpochSteps are the steps of an epoch, the unit of settings that are counted in epochs. The authors' are of ImageNet.
	EpochSteps int `json:"epoch"`

	LearningRate        float64 `json:"rate"` // Peak learning rate of AdamW: a linear warmup over WarmupSteps steps, then a cosine to FinalLearningRate.
	FinalLearningRate   float64 `json:"final_rate"`
	WarmupSteps         int     `json:"warmup"`
	PatchEmbedRate      float64 `json:"patch_embed_rate"` // Factor on the rate of the patch embedding.
	WeightDecay         float64 `json:"decay"`            // Weight decay at the first step, a cosine to FinalWeightDecay; biases and norms do not decay.
	FinalWeightDecay    float64 `json:"final_decay"`
	TargetMomentum      float64 `json:"momentum"` // Momentum of the teacher at the first step, a cosine to FinalTargetMomentum.
	FinalTargetMomentum float64 `json:"final_momentum"`
	GradientClip        float64 `json:"clip"`          // Largest norm of the gradient of each variable; 0 for no clipping.
	FrozenEpochs        int     `json:"frozen_epochs"` // Epochs in which the last layer of the head stays as it is.

	Targets                 string      `json:"targets"`     // What keeps the teacher from collapse: centre or sinkhorn.
	Temperature             float64     `json:"temperature"` // Temperature of the student's softmax.
	ClassTemperature        Temperature `json:"class_temperature"`
	PatchTemperature        Temperature `json:"patch_temperature,omitzero"` // iBOT
	TemperatureWarmupEpochs int         `json:"temperature_epochs"`         // Epochs from the teacher's start temperature to its final one.
	CenterMomentum          float64     `json:"center_momentum"`            // Momentum of the centre of the teacher's outputs.

	Masked views.MaskShare `json:"masked,omitzero"` // iBOT: the share of hidden patches in half of the global views; the other half has none.

	Discrimination      heads.DiscriminationHead `json:"discrimination,omitzero"`       // Mugs: of instances and local groups, one head each.
	Queue               int                      `json:"queue,omitzero"`                // Mugs: length of the queues and of the memories of local groups.
	Neighbours          int                      `json:"neighbours,omitzero"`           // Mugs: images of a local group besides its own.
	ContrastTemperature float64                  `json:"contrast_temperature,omitzero"` // Mugs: of instance and local-group discrimination.
}

// Temperature is the teacher's in the first epoch and after its warm-up; see [losses.TeacherTemperature].
type Temperature struct {
	Start float64 `json:"start"` // The teacher's temperature in the first epoch.
	Final float64 `json:"final"` // The teacher's temperature after its warm-up.
}

// Default returns the authors' settings for ViT-S/16 and 800 epochs, from their published commands: 1024 images a step, 1251 steps an epoch, two views of
// 224 pixels and ten of 96. The learning rate is theirs for 256 images times 4.
func Default(method string) Config {
	c := Config{
		Method: method, Encoder: "vit-s16", Positions: encoder.DINOPositions, DropPath: 0.1, Head: heads.DefaultDINOHead(),
		Views: views.DefaultMultiCrop(), ImageSize: 512, Batch: 1024, Steps: 800 * 1251, EpochSteps: 1251,
		LearningRate: 2e-3, FinalLearningRate: 1e-6, WarmupSteps: 10 * 1251, PatchEmbedRate: 1, WeightDecay: 0.04, FinalWeightDecay: 0.4,
		TargetMomentum: 0.996, FinalTargetMomentum: 1, GradientClip: 3, FrozenEpochs: 1,
		Targets: Centred, Temperature: 0.1, ClassTemperature: Temperature{0.04, 0.07}, TemperatureWarmupEpochs: 30, CenterMomentum: 0.9,
	}
	c.Head.NormLastLayer = false
	c.Views.Locals, c.Views.MinOverlap, c.Views.Independent = 10, 0, true
	switch method {
	case DINO:
		c.FinalLearningRate, c.GradientClip = 1e-5, 0
	case IBOT:
		c.Head.OutDim, c.PatchTemperature, c.Masked = 8192, Temperature{0.04, 0.07}, views.MaskShare{Mean: 0.3, Spread: 0.2}
	case Mugs:
		c.LearningRate, c.PatchEmbedRate, c.FinalWeightDecay = 3.2e-3, 0.2, 0.1
		c.Discrimination, c.Queue, c.Neighbours, c.ContrastTemperature = heads.DefaultDiscriminationHead(), 65536, 8, 0.2
	}
	return c
}

// maxReal bounds learning rates and temperatures; larger ones overflow in float32 once they are multiplied.
const maxReal = 1e6

// Check returns an error that names the first field that is out of range.
func (c Config) Check() error {
	if !slices.Contains(Names, c.Method) {
		return fmt.Errorf("method %q is unknown; the methods are %s", c.Method, strings.Join(Names, ", "))
	}
	vit, err := encoder.ViTByName(c.Encoder)
	if err != nil {
		return fmt.Errorf("encoder: %w", err)
	}
	if err := c.Positions.Check(); err != nil {
		return err
	}
	type field struct {
		name             string
		value, low, high float64
	}
	fields := []field{
		{"drop_path", c.DropPath, 0, 0.99},
		{"head.hidden", float64(c.Head.HiddenDim), 1, 1 << 14}, {"head.bottleneck", float64(c.Head.BottleneckDim), 1, 1 << 14}, {"head.out", float64(c.Head.OutDim), 2, 1 << 18},
		{"canvas", float64(c.ImageSize), 1, 2 * settings.MaxImageSize}, {"batch", float64(c.Batch), 2, 1 << 16},
		{"steps", float64(c.Steps), 1, math.MaxInt32}, {"epoch", float64(c.EpochSteps), 1, math.MaxInt32},
		{"rate", c.LearningRate, 0, maxReal}, {"final_rate", c.FinalLearningRate, 0, maxReal}, {"warmup", float64(c.WarmupSteps), 0, math.MaxInt32},
		{"patch_embed_rate", c.PatchEmbedRate, 0, maxReal}, {"decay", c.WeightDecay, 0, maxReal}, {"final_decay", c.FinalWeightDecay, 0, maxReal},
		{"momentum", c.TargetMomentum, 0, 1}, {"final_momentum", c.FinalTargetMomentum, 0, 1}, {"clip", c.GradientClip, 0, maxReal},
		{"frozen_epochs", float64(c.FrozenEpochs), 0, math.MaxInt32}, {"temperature_epochs", float64(c.TemperatureWarmupEpochs), 0, math.MaxInt32},
		{"temperature", c.Temperature, 1e-3, maxReal}, {"center_momentum", c.CenterMomentum, 0, 1},
		{"class_temperature.start", c.ClassTemperature.Start, 1e-3, maxReal}, {"class_temperature.final", c.ClassTemperature.Final, 1e-3, maxReal},
	}
	least := 2.0 // Global views: the pairs are of different ones.
	if c.Views.Locals > 0 {
		least = 1
	}
	fields = append(fields, field{"views.Globals", float64(c.Views.Globals), least, 16})
	switch c.Method {
	case IBOT:
		fields = append(fields, field{"patch_temperature.start", c.PatchTemperature.Start, 1e-3, maxReal}, field{"patch_temperature.final", c.PatchTemperature.Final, 1e-3, maxReal})
	case Mugs:
		fields = append(fields,
			field{"discrimination.hidden", float64(c.Discrimination.HiddenDim), 1, 1 << 14}, field{"discrimination.out", float64(c.Discrimination.OutDim), 2, 1 << 14},
			field{"discrimination.predictor", float64(c.Discrimination.PredictorDim), 1, 1 << 14},
			field{"queue", float64(c.Queue), float64(c.Views.Globals * c.Batch), 1 << 20}, field{"neighbours", float64(c.Neighbours), 1, min(float64(c.Queue), 1024)},
			field{"contrast_temperature", c.ContrastTemperature, 1e-3, maxReal})
	}
	for _, f := range fields {
		if !(f.low <= f.value && f.value <= f.high) {
			return fmt.Errorf("%s %v is not between %v and %v", f.name, f.value, f.low, f.high)
		}
	}
	patch := func(name string, size int) error {
		if size%vit.PatchSize != 0 || size < vit.PatchSize {
			return fmt.Errorf("%s %d is not a multiple of %s's patch size %d", name, size, c.Encoder, vit.PatchSize)
		}
		return nil
	}
	local := error(nil)
	if c.Views.Locals > 0 {
		local = patch("views.LocalSize", c.Views.LocalCropSize)
	}
	switch {
	case c.WarmupSteps >= c.Steps:
		return fmt.Errorf("warmup %d is not below steps %d", c.WarmupSteps, c.Steps)
	case !slices.Contains([]string{Centred, Sinkhorn}, c.Targets):
		return fmt.Errorf("targets %q: want %s or %s", c.Targets, Centred, Sinkhorn)
	case c.Targets == Sinkhorn && c.Method == Mugs:
		return fmt.Errorf("targets %s: %s has those of its centre", c.Targets, c.Method)
	}
	return cmp.Or(patch("views.GlobalSize", c.Views.GlobalCropSize), local, c.Views.Check(), c.checkMasks(), c.fits(vit))
}

func (c Config) checkMasks() error {
	if c.Method != IBOT {
		return nil
	}
	if err := c.masks().Check(); err != nil {
		return fmt.Errorf("masked: %w", err)
	}
	return nil
}

// masks draws the hidden patches of a view.
func (c Config) masks() views.BlockMask {
	return views.BlockMask{Shares: []views.MaskShare{{}, c.Masked}}
}

// fits returns an error if a batch is too large for memory: its images, or the attention of its views.
func (c Config) fits(vit encoder.ViT) error {
	for _, crop := range []struct {
		views, size  int
		count, pixel string
	}{{c.Views.Globals, c.Views.GlobalCropSize, "Globals", "GlobalSize"}, {c.Views.Locals, c.Views.LocalCropSize, "Locals", "LocalSize"}} {
		tokens := 1 + (crop.size/vit.PatchSize)*(crop.size/vit.PatchSize)
		what := fmt.Sprintf("views.%s %d of views.%s %d, batch %d: attention of %d tokens", crop.count, crop.views, crop.pixel, crop.size, c.Batch, tokens)
		if err := settings.Fit(settings.MaxDeviceBytes, what, c.Batch, crop.views, vit.NumHeads, tokens, tokens, 4); err != nil {
			return err
		}
	}
	return settings.Fit(settings.MaxBytes, fmt.Sprintf("batch %d of images of canvas %d", c.Batch, c.ImageSize), c.Batch, c.ImageSize, c.ImageSize, 3)
}

// vit is the encoder of a checked configuration.
func (c Config) vit() encoder.ViT {
	v, err := encoder.ViTByName(c.Encoder)
	if err != nil {
		panic(err)
	}
	v.Positions, v.GradientCheckpointing = c.Positions, c.GradientCheckpointing
	if c.BF16 {
		v.ComputeDType = dtypes.BFloat16
	}
	return v
}

// scheduled are the numbers of a step that are inputs of the graph, in the order of [read].
func (c Config) scheduled(step int) []float32 {
	epoch, frozen := step/c.EpochSteps, float32(0)
	if epoch < c.FrozenEpochs {
		frozen = 1
	}
	temperature := func(t Temperature) float32 {
		return float32(losses.TeacherTemperature(epoch, c.TemperatureWarmupEpochs, t.Start, t.Final))
	}
	return []float32{
		float32(optim.Cosine(step, c.Steps, c.WarmupSteps, c.LearningRate, c.FinalLearningRate)),
		float32(optim.Cosine(step, c.Steps, 0, c.WeightDecay, c.FinalWeightDecay)),
		float32(optim.Cosine(step, c.Steps, 0, c.TargetMomentum, c.FinalTargetMomentum)),
		temperature(c.ClassTemperature), temperature(c.PatchTemperature), frozen,
	}
}

// shape keeps only what the compiled step depends on. The rest are inputs of the step.
func (c Config) shape() Config {
	c.Steps, c.EpochSteps, c.WarmupSteps, c.FrozenEpochs, c.TemperatureWarmupEpochs = 0, 0, 0, 0, 0
	c.LearningRate, c.FinalLearningRate, c.WeightDecay, c.FinalWeightDecay, c.TargetMomentum, c.FinalTargetMomentum = 0, 0, 0, 0, 0, 0
	c.ClassTemperature, c.PatchTemperature, c.Masked, c.DropPath = Temperature{}, Temperature{}, views.MaskShare{}, math.Ceil(c.DropPath)
	c.Views.Global, c.Views.Local, c.Views.MinOverlap, c.Views.Independent = views.Recipe{}, views.Recipe{}, 0, false
	return c
}
