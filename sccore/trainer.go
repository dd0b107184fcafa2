package sccore

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/knn"
	"github.com/semcon/semcon/sccore/train"
	"github.com/semcon/semcon/sccore/weights"
)

// Data is what a run trains on: object-centric images, scenes, or one half of each batch of either.
type Data struct {
	Objects, Scenes datasets.Source
	// Neighbours of Objects, which positives are drawn from; needed for image concentration alone. See [Trainer.SetNeighbours].
	Neighbours *knn.Neighbours
	// Labels writes the label map of an image, 0 for no label, into canvas, [side, side], as Objects and Scenes write its pixels; scenes are
	// numbered behind all objects. Nil for images without labels. [StepMetrics].Classes looks at them; nothing learns from them but with
	// correspondences from labels.
	Labels func(image int32, canvas []uint8, side int) error

	Workers int             // Images decoded at once; 0 for one a processor. It changes nothing else.
	Broken  datasets.Broken // What becomes of an image that cannot be read.
}

// Trainer trains an encoder with the paper's method. One compiled step serves any number of runs; what a run does depends on its
// configuration, data and seed alone, and on the backend. It is not safe for concurrent use.
type Trainer struct {
	*train.Trainer[StepMetrics]
	// Skipped is told of each image that could not be read, unless it is nil.
	Skipped func(datasets.Skipped)

	backend   compute.Backend
	objective *Objective
}

// NewTrainer compiles the step of a configuration. The error names what is out of range or missing.
func NewTrainer(b compute.Backend, data Data, config Config) (*Trainer, error) {
	objective, err := NewObjective(data, config)
	if err != nil {
		return nil, err
	}
	return trainerOf(b, objective)
}

func trainerOf(b compute.Backend, objective *Objective) (t *Trainer, err error) {
	t = &Trainer{backend: b, objective: objective}
	objective.skipped = func(image datasets.Skipped) {
		if t.Skipped != nil {
			t.Skipped(image)
		}
	}
	if t.Trainer, err = train.New(b, objective); err != nil {
		return nil, err
	}
	return t, nil
}

// Close frees the device's memory and ends the reading of images.
func (t *Trainer) Close() {
	t.objective.rewind()
	t.Trainer.Close()
}

// Config is the configuration of the run.
func (t *Trainer) Config() Config { return t.objective.config }

// Configure sets another configuration for the runs to come, which has to share the compiled step: schedules, steps, looks of views, the
// share of noise, and λ that are not 0 may differ. Others are an error.
func (t *Trainer) Configure(config Config) error {
	if err := config.Check(); err != nil {
		return err
	}
	if config.shape() != t.objective.config.shape() {
		return errors.New("this configuration needs another compiled step")
	}
	t.objective.config = config
	t.objective.rewind()
	return nil
}

// SetNeighbours sets the neighbours that the runs to come draw positives from: they are often found with an earlier run's features.
func (t *Trainer) SetNeighbours(neighbours *knn.Neighbours) {
	t.objective.data.Neighbours = neighbours
	t.objective.rewind()
}

// Begin sets the weights of both branches to the initial values of a seed, the same on every backend, and the run to step 0.
func (t *Trainer) Begin(seed uint64) error {
	if err := t.objective.checkNeighbours(); err != nil {
		return err
	}
	return t.Trainer.Begin(seed)
}

// Resume sets the run to what Save wrote and returns its note. Training then goes on as if it had never stopped, bit for bit on the same
// backend. The file has to be of the trainer's configuration, as data have to be the same; the error names it.
func (t *Trainer) Resume(path string) (note string, err error) {
	if err := t.objective.checkNeighbours(); err != nil {
		return "", err
	}
	return t.Trainer.Resume(path)
}

// checkNeighbours returns an error where positives cannot be drawn.
func (o *Objective) checkNeighbours() error {
	if o.step.positives() == 0 {
		return nil
	}
	switch n := o.data.Neighbours; {
	case n == nil:
		return errors.New("lambdas.image_concentration: there are no neighbours to draw positives from")
	case len(n.Indices) != n.K*o.data.Objects.Len():
		return fmt.Errorf("neighbours of %d images, there are %d object-centric ones", len(n.Indices)/max(n.K, 1), o.data.Objects.Len())
	}
	return nil
}

// BeginFrom is [Trainer.Begin] with weights from a file in both branches: the online branch of a run's checkpoint, which is what the paper
// keeps of a run, of any configuration with the same encoder; or a transformer that weights.ReadViT reads. What the file lacks has the
// initial values of the seed: the filter and heads of an official checkpoint, and heads of other sizes.
func (t *Trainer) BeginFrom(path string, seed uint64) error {
	if err := t.Begin(seed); err != nil {
		return err
	}
	if err := t.adopt(path); err != nil {
		return err
	}
	return train.CopyScope(t.Store(), "/"+onlineScope, "/"+targetScope)
}

// adopt sets the online branch from a file.
func (t *Trainer) adopt(path string) error {
	if strings.HasSuffix(path, ".safetensors") {
		named, metadata, err := weights.ReadSafetensors(path)
		if err != nil {
			return err
		}
		if metadata["position"] != "" {
			for variable := range t.Store().Scope("/" + onlineScope).IterVariables() {
				value, ok := named[variable.Path()]
				inEncoder := strings.HasPrefix(variable.Path(), "/"+onlineScope+"/"+encoderScope+"/") && !strings.Contains(variable.Path(), "/filter/")
				switch {
				case ok && value.Shape().Equal(variable.Shape()):
					values, err := tensors.CopyFlatData[float32](value)
					if err == nil {
						err = weights.CheckFinite(values)
					}
					if err == nil {
						err = variable.SetValue(value)
					}
					if err != nil {
						return fmt.Errorf("%s: variable %s: %w", path, variable.Path(), err)
					}
				case inEncoder:
					return fmt.Errorf("%s: no %s of %s, which %s needs", path, variable.Path(), variable.Shape(), t.objective.step.vit.Name)
				}
			}
			return nil
		}
	}
	read, err := weights.ReadViT(path, t.objective.step.vit, "")
	if err != nil {
		return err
	}
	return read.Apply(t.Store(), "/"+onlineScope+"/"+encoderScope)
}

// Branch is one of the two branches.
type Branch string

// The branches.
const (
	Online Branch = onlineScope
	Target Branch = targetScope
)

// Encoder gives the encoder of a branch where it stands: its store, the scope of its variables in it, and what it is. Later steps
// change it.
func (t *Trainer) Encoder(branch Branch) (vit encoder.ViT, store *model.Store, scope string) {
	return t.objective.step.vit, t.Store(), "/" + string(branch) + "/" + encoderScope
}

// SaveEncoder writes the encoder of a branch, without heads and optimizer, to a .safetensors under timm's names, for weights.ReadViT. timm
// loads it strictly if it has no filter.
func (t *Trainer) SaveEncoder(path string, branch Branch, metadata map[string]string) error {
	vit, store, scope := t.Encoder(branch)
	return weights.ExportViT(path, store, scope, vit, nil, metadata)
}
