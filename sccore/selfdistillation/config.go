// Package selfdistillation trains encoders by DINO, iBOT and Mugs, from scratch or from a file: a student learns to predict its own moving average, the
// teacher, which sees other views of the same image.
//
// A [Config] and images go in; a [Trainer] of package train comes out. The losses come from package losses, the views from package views. Of the authors'
// recipes, solarisation, the unlike blurs of two global views, and Mugs' strong augmentation are left out. The next method gets a file with its loss and a case
// in step.loss.
package selfdistillation

import (
	"cmp"
	"fmt"
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore"
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
	Method                string            `json:"method" oneof:"dino|ibot|mugs"`            // The training method: dino, ibot or mugs.
	Encoder               string            `json:"encoder"`                                  // Name of the vision transformer: vit-s16, vit-b16, vit-b8, vit-tiny, or a name made of parts such as vit-l14-grid37-reg4-ls.
	Positions             encoder.Positions `json:"positions" oneof:"dino|timm|transformers"` // How position embeddings are resized for local views: as in dino, timm or transformers.
	BF16                  bool              `json:"bf16"`                                     // Compute the encoder in bfloat16, with float32 weights.
	GradientCheckpointing bool              `json:"checkpoint"`                               // Compute the encoder's blocks again in the backward pass, to save memory.
	DropPath              float64           `json:"drop_path" range:"[0,0.99]"`               // Probability of stochastic depth in the student's last block; it rises linearly from 0 in the first.

	Head  heads.DINOHead  `json:"head"` // Of [CLS] tokens; iBOT's patches share it.
	Views views.MultiCrop `json:"views"`
	// ImageSize is the height and width in pixels of the canvas that images are read into; larger images are shrunk to fit.
	ImageSize int `json:"canvas" range:"[1,4096]"`
	Batch     int `json:"batch" range:"[2,2^16]"` // Images per step; even with two sources of images.
	Steps     int `json:"steps" range:"[1,2^31)"`
	// EpochSteps are the steps of an epoch, the unit of settings that are counted in epochs. The authors' are of ImageNet.
	EpochSteps int `json:"epoch" range:"[1,2^31)"`

	LearningRate        float64 `json:"rate" range:"[0,1e6]"` // Peak learning rate of AdamW: a linear warmup over WarmupSteps steps, then a cosine to FinalLearningRate.
	FinalLearningRate   float64 `json:"final_rate" range:"[0,1e6]"`
	WarmupSteps         int     `json:"warmup" range:"[0,2^31)"`
	PatchEmbedRate      float64 `json:"patch_embed_rate" range:"[0,1e6]"` // Factor on the rate of the patch embedding.
	WeightDecay         float64 `json:"decay" range:"[0,1e6]"`            // Weight decay at the first step, a cosine to FinalWeightDecay; biases and norms do not decay.
	FinalWeightDecay    float64 `json:"final_decay" range:"[0,1e6]"`
	TargetMomentum      float64 `json:"momentum" range:"[0,1]"` // Momentum of the teacher at the first step, a cosine to FinalTargetMomentum.
	FinalTargetMomentum float64 `json:"final_momentum" range:"[0,1]"`
	GradientClip        float64 `json:"clip" range:"[0,1e6]"`           // Largest norm of the gradient of each variable; 0 for no clipping.
	FrozenEpochs        int     `json:"frozen_epochs" range:"[0,2^31)"` // Epochs in which the last layer of the head stays as it is.

	Targets                 string      `json:"targets" oneof:"centre|sinkhorn"` // What keeps the teacher from collapse: centre or sinkhorn.
	Temperature             float64     `json:"temperature" range:"[1e-3,1e6]"`  // Temperature of the student's softmax.
	ClassTemperature        Temperature `json:"class_temperature"`
	PatchTemperature        Temperature `json:"patch_temperature,omitzero"`          // iBOT
	TemperatureWarmupEpochs int         `json:"temperature_epochs" range:"[0,2^31)"` // Epochs from the teacher's start temperature to its final one.
	CenterMomentum          float64     `json:"center_momentum" range:"[0,1]"`       // Momentum of the centre of the teacher's outputs.

	Masked views.MaskShare `json:"masked,omitzero"` // iBOT: the share of hidden patches in half of the global views; the other half has none.

	Discrimination      heads.DiscriminationHead `json:"discrimination,omitzero"`                            // Mugs: of instances and local groups, one head each.
	Queue               int                      `json:"queue,omitzero" range:"[0,2^20]"`                    // Mugs: length of the queues and of the memories of local groups.
	Neighbours          int                      `json:"neighbours,omitzero" range:"[0,1024]"`               // Mugs: images of a local group besides its own.
	ContrastTemperature float64                  `json:"contrast_temperature,omitzero" range:"0|[1e-3,1e6]"` // Mugs: of instance and local-group discrimination.
}

// Temperature is the teacher's in the first epoch and after its warm-up; see [losses.TeacherTemperature].
type Temperature struct {
	Start float64 `json:"start" range:"[1e-3,1e6]"` // The teacher's temperature in the first epoch.
	Final float64 `json:"final" range:"[1e-3,1e6]"` // The teacher's temperature after its warm-up.
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

// Rules returns an error that names the first fields that contradict each other; see [settings.Check].
func (c Config) Rules() error {
	vit, err := encoder.ViTByName(c.Encoder)
	if err != nil {
		return fmt.Errorf("encoder: %w", err)
	}
	switch c.Method {
	case IBOT:
		err = settings.CheckGroup("patch_temperature", c.PatchTemperature)
	case Mugs:
		err = cmp.Or(settings.CheckGroup("discrimination", c.Discrimination), settings.Between("queue", c.Queue, c.Views.Globals*c.Batch, 1<<20),
			settings.Between("neighbours", c.Neighbours, 1, min(c.Queue, 1024)), settings.Between("contrast_temperature", c.ContrastTemperature, 1e-3, 1e6))
	}
	switch {
	case err != nil:
		return err
	case c.Views.Globals+c.Views.Locals < 2:
		return fmt.Errorf("views.globals %d without local views: the pairs are of different ones, want at least 2", c.Views.Globals)
	case c.WarmupSteps >= c.Steps:
		return fmt.Errorf("warmup %d is not below steps %d", c.WarmupSteps, c.Steps)
	case c.Targets == Sinkhorn && c.Method == Mugs:
		return fmt.Errorf("targets %s: %s computes its targets by a centre", c.Targets, c.Method)
	}
	return sccore.CheckViews(c.Views, vit, c.Batch, c.ImageSize, fmt.Sprintf("batch %d", c.Batch))
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
