package selfdistillation

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/train"
	"github.com/semcon/semcon/sccore/views"
	"github.com/semcon/semcon/sccore/weights"
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

	objective *objective
	continued bool // See Continued.
}

// NewTrainer compiles the step of a configuration. The methods treat objects and scenes alike, and take neither neighbours nor labels. The error names what is out of range or missing.
func NewTrainer(b compute.Backend, data sccore.Data, config Config) (*Trainer, error) {
	o, err := newObjective(data, config)
	if err != nil {
		return nil, err
	}
	t := &Trainer{objective: o}
	o.skipped = t.Skip
	t.Branches, err = sccore.NewBranches(b, o.task(), o.step.vit)
	return t, err
}

// Config is the configuration of the run.
func (t *Trainer) Config() Config { return t.objective.config }

// Configure sets other images and another configuration for the runs to come. It must share the compiled step: schedules, steps, epochs, temperatures of
// the teacher, the augmentation of views and the share of hidden patches may differ. Anything else is an error.
func (t *Trainer) Configure(data sccore.Data, config Config) error {
	o, err := newObjective(data, config)
	if err != nil {
		return err
	}
	if config.shape() != t.objective.config.shape() {
		return errors.New("this configuration needs another compiled step")
	}
	t.Rewind()
	t.objective.data, t.objective.config = o.data, o.config
	return nil
}

// BeginFrom begins a run with weights from a file, in both branches. The file is a checkpoint of this trainer or of sccore's, of which the target branch is
// read, the teacher; or a transformer that weights.ReadViT reads. A checkpoint of the same method also gives heads of the same sizes, centres, queues and
// memories, so that the training continues; what the teacher does not have comes from the student. A full checkpoint of the authors gives both branches as they are, heads of the same
// sizes and centres; see [Trainer.Continued]. All else starts with the initial values of the seed, and so does the optimizer. Keys of a transformer that match ignore are left out.
func (t *Trainer) BeginFrom(path string, seed uint64, ignore ...string) error {
	if err := t.Begin(seed); err != nil {
		return err
	}
	err := t.Adopt(path, ignore, func(variable string) (from string, needed bool) {
		switch below, online := strings.CutPrefix(variable, "/"+onlineScope); {
		case online:
			inEncoder, ok := strings.CutPrefix(below, "/"+encoderScope+"/")
			needed = ok && slices.ContainsFunc(t.objective.step.vit.Weights(), func(w encoder.Weight) bool { return w.Path == inEncoder })
			if slices.ContainsFunc(studentOnly, func(part string) bool { return strings.Contains(below, part) }) {
				return variable, needed
			}
			return "/" + targetScope + below, needed
		case strings.HasPrefix(variable, "/"+stateScope+"/"):
			return variable, false
		}
		return "", false
	})
	if err != nil {
		return err
	}
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
			if scope == "group_head" { // Mugs's.
				name = strings.Replace(name, "mlp.", "projector.", 1)
			}
			keys = append(keys, official+"."+scope+"."+name)
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

// objective is a method as package train takes it: the graph of its step, and the batches.
type objective struct {
	config  Config // The current run's; the step is compiled for a configuration of the same shape.
	data    sccore.Data
	step    step
	skipped func([]datasets.Skipped)
}

func newObjective(data sccore.Data, config Config) (*objective, error) {
	if err := settings.Check(config); err != nil {
		return nil, err
	}
	o := &objective{config: config, data: data, step: step{Config: config, vit: config.vit()}}
	return o, o.data.Loader(0, config.Batch, config.ImageSize).Check()
}

// task is what package train trains.
func (o *objective) task() train.Task[StepMetrics] {
	return train.Task[StepMetrics]{
		Steps: func() int { return o.config.Steps }, Inputs: o.step.inputs(), Batches: o.batches,
		Schedule: func(step int) []float32 { return o.config.scheduled(step) },
		Loss:     o.step.loss, Update: o.step.update,
		Config: func() any { return o.config },
		Describe: func(m *StepMetrics, step int) {
			m.Step, m.LearningRate = step+1, float64(o.config.scheduled(step)[0])
		},
		Workload: train.Workload{Images: o.config.Batch},
	}
}

// batches reads the batches of a run and draws their views, masks and dropped paths.
func (o *objective) batches(ctx context.Context, seed uint64, from int) iter.Seq2[train.Batch, error] {
	return train.Prepared(o.data.Loader(seed, o.config.Batch, o.config.ImageSize).Batches(ctx, from), func(batch *datasets.Batch) (train.Batch, error) {
		return train.Batch{Inputs: o.prepare(batch, seed), Taken: func() { o.skipped(batch.Skipped) }}, nil
	})
}

// prepare makes the inputs of a batch, without the scheduled ones.
func (o *objective) prepare(batch *datasets.Batch, seed uint64) []any {
	c, s := o.config, o.step
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
