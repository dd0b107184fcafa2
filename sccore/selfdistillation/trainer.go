// Package selfdistillation trains encoders by DINO, iBOT and Mugs, from scratch or from a file: a student learns to predict its own moving average, the
// teacher, which sees other views of the same image.
//
// A [Config] and images go in; a [Trainer] of package train comes out. The losses come from package losses, the views from package views. Of the authors'
// recipes, solarisation, the unlike blurs of two global views, and Mugs' strong augmentation are left out. The next method gets a file with its loss and a case
// in step.loss.
package selfdistillation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/dsnet/try"
	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/samber/lo"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/heads"
	"github.com/semcon/semcon/sccore/optim"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/train"
	"github.com/semcon/semcon/sccore/views"
	"github.com/semcon/semcon/sccore/weights"
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

// scheduled are the numbers of a step that are inputs of the graph, in the order of [readScheduled].
func (c Config) scheduled(step int) []float32 {
	epoch := step / c.EpochSteps
	temperature := func(t Temperature) float32 {
		return float32(losses.TeacherTemperature(epoch, c.TemperatureWarmupEpochs, t.Start, t.Final))
	}
	return []float32{
		float32(optim.Cosine(step, c.Steps, c.WarmupSteps, c.LearningRate, c.FinalLearningRate)),
		float32(optim.Cosine(step, c.Steps, 0, c.WeightDecay, c.FinalWeightDecay)),
		float32(optim.Cosine(step, c.Steps, 0, c.TargetMomentum, c.FinalTargetMomentum)),
		temperature(c.ClassTemperature), temperature(c.PatchTemperature), lo.Ternary[float32](epoch < c.FrozenEpochs, 1, 0),
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

	// Entropy is the mean entropy of the teacher's distributions of [CLS] tokens, and MeanEntropy is the entropy of their mean, in [0, ln K] for K logits. A
	// teacher that has collapsed has both at ln K, or both at 0.
	Entropy     float64 `json:"entropy"`
	MeanEntropy float64 `json:"mean_entropy"`

	GradientNorm float64 `json:"gradient_norm"` // Before clipping.

	// Evaluated are the values of evaluators that ran behind the step, as "evaluator/value".
	Evaluated map[string]float64 `json:"evaluated,omitempty"`
}

// Trainer trains an encoder with one of the methods. One compiled step serves any number of runs. A run depends on its configuration, data, start and seed
// and on the backend, on nothing else. A Trainer is not safe for concurrent use.
type Trainer struct {
	sccore.Branches[StepMetrics]

	config    Config // The current run's; the step is compiled for a configuration of the same shape.
	data      sccore.Data
	step      step
	continued bool // See Continued.
}

// NewTrainer compiles the step of a configuration. The methods treat objects and scenes alike, and take neither neighbours nor labels. The error names what is out of range or missing.
func NewTrainer(b compute.Backend, data sccore.Data, config Config) (_ *Trainer, err error) {
	defer try.Handle(&err)
	try.E(check(data, config))
	vit := sccore.Config{Encoder: config.Encoder, Positions: config.Positions, BF16: config.BF16, GradientCheckpointing: config.GradientCheckpointing}.ViT()
	t := &Trainer{config: config, data: data, step: step{Config: config, vit: vit}}
	t.Branches, err = sccore.NewBranches(b, t.task(), t.step.vit)
	return t, err
}

func check(data sccore.Data, config Config) error {
	return cmp.Or(settings.Check(config), data.Loader(0, config.Batch, config.ImageSize).Check())
}

// Configure sets other images and another configuration for the runs to come. It must share the compiled step: schedules, steps, epochs, temperatures of
// the teacher, the augmentation of views and the share of hidden patches may differ. Anything else is an error.
func (t *Trainer) Configure(data sccore.Data, config Config) (err error) {
	defer try.Handle(&err)
	try.E(check(data, config))
	if config.shape() != t.config.shape() {
		return errors.New("this configuration needs another compiled step")
	}
	t.Rewind()
	t.data, t.config = data, config
	return nil
}

// BeginFrom begins a run with weights from a file, in both branches. The file is a checkpoint of this trainer or of sccore's, of which the target branch is
// read, the teacher; or a transformer that weights.ReadViT reads. A checkpoint of the same method also gives heads of the same sizes, centres, queues and
// memories, so that the training continues; what the teacher does not have comes from the student. A full checkpoint of the authors gives both branches as they are, heads of the same
// sizes and centres; see [Trainer.Continued]. All else starts with the initial values of the seed, and so does the optimizer. Keys of a transformer that match ignore are left out.
func (t *Trainer) BeginFrom(path string, seed uint64, ignore ...string) (err error) {
	defer try.Handle(&err)
	try.E(t.Begin(seed))
	try.E(t.Adopt(path, ignore, func(variable string) (from string, needed bool) {
		switch below, online := strings.CutPrefix(variable, "/"+onlineScope); {
		case online:
			inEncoder, ok := strings.CutPrefix(below, "/"+encoderScope+"/")
			needed = ok && slices.ContainsFunc(t.step.vit.Weights(), func(w encoder.Weight) bool { return w.Path == inEncoder })
			if slices.ContainsFunc(studentOnly, func(part string) bool { return strings.Contains(below, part) }) {
				return variable, needed
			}
			return "/" + targetScope + below, needed
		case strings.HasPrefix(variable, "/"+stateScope+"/"):
			return variable, false
		}
		return "", false
	}))
	taken, err := weights.Take(path, t.Store(), officialKeys)
	t.continued = !slices.ContainsFunc(train.Learnt(t.Store().RootScope(), onlineScope), func(variable *model.Variable) bool {
		return strings.Contains(variable.Path(), "/"+headScope+"/") && !slices.Contains(taken, variable.Path())
	})
	return err
}

// Continued reports whether the run begins with more than an encoder, from a full checkpoint of the authors: both branches, and the heads.
func (t *Trainer) Continued() bool { return t.continued }

// officialKeys lists the keys that a variable has in the full checkpoints of DINO, iBOT and Mugs; the teacher's stand in for the student's.
func officialKeys(variable string) (keys []string) {
	branch, below, _ := strings.Cut(strings.TrimPrefix(variable, "/"), "/")
	part, name, _ := strings.Cut(below, "/")
	name = strings.ReplaceAll(name, "/", ".")
	branches := map[string][]string{onlineScope: {"student", "teacher"}, targetScope: {"teacher"}}[branch]
	for _, official := range branches {
		for _, scope := range map[string][]string{encoderScope: {"backbone"}, headScope: {"head", "group_head"}}[part] {
			key := name
			if scope == "group_head" { // Mugs's.
				key = strings.Replace(name, "mlp.", "projector.", 1)
			}
			keys = append(keys, official+"."+scope+"."+key)
		}
		if part == "instance" || part == "local_group" {
			keys = append(keys, official+"."+part+"_head."+name)
		}
	}
	switch variable {
	case "/" + stateScope + "/center":
		return []string{"dino_loss.center", "ibot_loss.center", "group-sup..center"}
	case "/" + stateScope + "/patch_center":
		return []string{"ibot_loss.center2"}
	}
	return keys
}

// studentOnly are the parts of a student that its teacher does not have. Their namesakes there are averages that nothing uses.
var studentOnly = []string{"/predictor/", "/masked_embed"}

// task is what package train trains.
func (t *Trainer) task() train.Task[StepMetrics] {
	return train.Task[StepMetrics]{
		Steps: func() int { return t.config.Steps }, Inputs: t.step.inputs(),
		Batches: func(ctx context.Context, seed uint64, from int) iter.Seq2[train.Batch, error] { // With their views, masks and dropped paths.
			return train.Prepared(t.data.Loader(seed, t.config.Batch, t.config.ImageSize).Batches(ctx, from), func(batch *datasets.Batch) (train.Batch, error) {
				return train.Batch{Inputs: t.prepare(batch, seed), Taken: func() { t.Skip(batch.Skipped) }}, nil
			})
		},
		Schedule: func(step int) []float32 { return t.config.scheduled(step) },
		Loss:     t.step.loss, Update: t.step.update,
		Config: func() any { return t.config },
		Describe: func(m *StepMetrics, step int) {
			m.Step, m.LearningRate = step+1, float64(t.config.scheduled(step)[0])
		},
		Workload: train.Workload{Images: t.config.Batch},
	}
}

// prepare makes the inputs of a batch, without the scheduled ones.
func (t *Trainer) prepare(batch *datasets.Batch, seed uint64) []any {
	c, s := t.config, t.step
	globals, locals := c.Views.Draw(seed, batch.Step, batch.Images, batch.Sizes)
	named := map[string]any{
		inPixels:  train.Bytes{Values: batch.Pixels, Dimensions: []int{c.Batch, c.ImageSize, c.ImageSize, 3}},
		inGlobals: globals, inLocals: locals,
	}
	if c.Method == IBOT {
		masks := views.BlockMask{Shares: []views.MaskShare{{}, c.Masked}}
		named[inMasks] = masks.Draw(seed, batch.Step, batch.Images, c.Views.Globals, s.side(), s.side())
	}
	if c.DropPath > 0 {
		random := rand.New(rand.NewPCG(seed, uint64(batch.Step)+1<<62))
		for _, in := range s.inputs() {
			if in.Name == inKeep || in.Name == inKeepLocals {
				factors := encoder.DropPaths(random, c.DropPath, s.vit.Depth, in.Shape.Dim(2))
				named[in.Name] = tensors.FromFlatDataAndDimensions(factors, in.Shape.Dimensions...)
			}
		}
	}
	return train.InOrder(s.inputs(), named)
}
