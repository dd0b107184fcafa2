package selfdistillation

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/safetensors"
	"github.com/semcon/semcon/sccore/train"
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

	// Entropy is the mean entropy of the teacher's distributions of [CLS] tokens, and MeanEntropy that of their mean, in [0, ln K] for K logits. A teacher
	// that has collapsed has both at ln K, or both at 0.
	Entropy     float64 `json:"entropy"`
	MeanEntropy float64 `json:"mean_entropy"`

	GradientNorm float64 `json:"gradient_norm"` // Before clipping.
}

// Trainer trains an encoder with one of the methods. One compiled step serves any number of runs. A run depends on its configuration, data, start and seed
// and on the backend, on nothing else. A Trainer is not safe for concurrent use.
type Trainer struct {
	*train.Trainer[StepMetrics]
	// Skipped, if not nil, is called for each image that cannot be read.
	Skipped func(datasets.Skipped)

	objective *objective
}

// NewTrainer compiles the step of a configuration. The error names what is out of range or missing.
func NewTrainer(b compute.Backend, data Data, config Config) (*Trainer, error) {
	o, err := newObjective(data, config)
	if err != nil {
		return nil, err
	}
	t := &Trainer{objective: o}
	o.skipped = func(image datasets.Skipped) {
		if t.Skipped != nil {
			t.Skipped(image)
		}
	}
	t.Trainer, err = train.New(b, o.task())
	return t, err
}

// Config is the configuration of the run.
func (t *Trainer) Config() Config { return t.objective.config }

// Configure sets other images and another configuration for the runs to come. It must share the compiled step: schedules, steps, epochs, temperatures of
// the teacher, the augmentation of views and the share of hidden patches may differ. Anything else is an error.
func (t *Trainer) Configure(data Data, config Config) error {
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
// memories, so that the training continues; what the teacher does not have comes from the student. All else starts with the initial values of the seed,
// and so does the optimizer. Keys of a transformer that match ignore are left out.
func (t *Trainer) BeginFrom(path string, seed uint64, ignore ...string) error {
	if err := t.Begin(seed); err != nil {
		return err
	}
	if err := t.adopt(path, ignore); err != nil {
		return err
	}
	return train.CopyScope(t.Store(), "/"+onlineScope, "/"+targetScope)
}

// adopt reads the online branch and the state from a file.
func (t *Trainer) adopt(path string, ignore []string) error {
	if strings.HasSuffix(path, ".safetensors") {
		named, metadata, err := safetensors.Read(path)
		if err != nil {
			return err
		}
		if metadata["position"] != "" {
			return t.adoptCheckpoint(path, named)
		}
	}
	read, err := weights.ReadViT(path, t.objective.step.vit, "", ignore...)
	if err != nil {
		return err
	}
	return read.Apply(t.Store(), "/"+onlineScope+"/"+encoderScope)
}

// studentOnly are the parts of a student that its teacher does not have. Their namesakes there are averages that nothing uses.
var studentOnly = []string{"/predictor/", "/masked_embed"}

func (t *Trainer) adoptCheckpoint(path string, named map[string]*tensors.Tensor) error {
	set := func(variable *model.Variable, from string) (found bool, err error) {
		value, ok := named[from]
		if !ok || !value.Shape().Equal(variable.Shape()) {
			return false, nil
		}
		values, err := tensors.CopyFlatData[float32](value)
		if err == nil {
			err = safetensors.CheckFinite(values)
		}
		if err == nil {
			err = variable.SetValue(value)
		}
		if err != nil {
			return false, fmt.Errorf("%s: variable %s: %w", path, from, err)
		}
		return true, nil
	}
	for variable := range t.Store().Scope("/" + onlineScope).IterVariables() {
		from := "/" + targetScope + strings.TrimPrefix(variable.Path(), "/"+onlineScope)
		for _, part := range studentOnly {
			if strings.Contains(from, part) {
				from = variable.Path()
			}
		}
		found, err := set(variable, from)
		if err != nil {
			return err
		}
		below, inEncoder := strings.CutPrefix(variable.Path(), "/"+onlineScope+"/"+encoderScope+"/")
		if inEncoder && !found && t.objective.step.needs(below) {
			return fmt.Errorf("%s: no %s of %s, which %s needs", path, from, variable.Shape(), t.objective.step.vit.Name)
		}
	}
	for variable := range t.Store().Scope("/" + stateScope).IterVariables() {
		if _, err := set(variable, variable.Path()); err != nil {
			return err
		}
	}
	return nil
}

// needs reports whether a variable below the encoder's scope is one of the transformer's own, which every file must have.
func (s step) needs(path string) bool {
	for _, weight := range s.vit.Weights() {
		if weight.Path == path {
			return true
		}
	}
	return false
}

// Encoder returns the encoder of a branch in place: what it is, its store, and the scope of its variables. Later steps change it. The target branch is the
// teacher, which the methods' authors publish.
func (t *Trainer) Encoder(branch sccore.Branch) (vit encoder.ViT, store *model.Store, scope string) {
	return t.objective.step.vit, t.Store(), "/" + string(branch) + "/" + encoderScope
}

// SaveEncoder writes the encoder of a branch, without heads and optimizer, to a .safetensors file under timm's names, for weights.ReadViT.
func (t *Trainer) SaveEncoder(path string, branch sccore.Branch, metadata map[string]string) error {
	vit, store, scope := t.Encoder(branch)
	return weights.ExportViT(path, store, scope, vit, nil, metadata)
}
