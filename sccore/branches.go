package sccore

import (
	"fmt"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/safetensors"
	"github.com/semcon/semcon/sccore/train"
	"github.com/semcon/semcon/sccore/weights"
)

// Branches trains an online branch, whose moving average is the target branch: the method, and those of package selfdistillation. M is what a step reports.
type Branches[M any] struct {
	*train.Trainer[M]
	// Skipped, if not nil, is called for each image that cannot be read.
	Skipped func(datasets.Skipped)

	vit encoder.ViT
}

// NewBranches compiles the step of a task, whose branches have this encoder and the names that package sccore gives them. Both branches of a run begin with the
// same values; other branches begin with zeros.
func NewBranches[M any](b compute.Backend, task train.Task[M], vit encoder.ViT) (Branches[M], error) {
	task.Learnt, task.Ahead = onlineScope, true
	task.Initialize = func(store *model.Store, seed uint64) error {
		if err := train.Initialize(store, seed, "/"+targetScope, "/"+teacherScope); err != nil {
			return err
		}
		return train.CopyScope(store, "/"+onlineScope, "/"+targetScope)
	}
	trainer, err := train.New(b, task)
	return Branches[M]{Trainer: trainer, vit: vit}, err
}

// Skip tells Skipped of images.
func (t *Branches[M]) Skip(images []datasets.Skipped) {
	for _, image := range images {
		if t.Skipped != nil {
			t.Skipped(image)
		}
	}
}

// Adopt takes weights from a file into a run that has begun, in both branches. The file is a checkpoint, in which source names what a variable takes, or ""
// for nothing, and says whether the file must have it; or a transformer that weights.ReadViT reads without the keys that match ignore.
func (t *Branches[M]) Adopt(path string, ignore []string, source func(variable string) (from string, needed bool)) error {
	named, err := readCheckpoint(path)
	if err != nil {
		return err
	}
	if named == nil {
		read, err := weights.ReadViT(path, t.vit, "", ignore...)
		if err == nil {
			err = read.Apply(t.Store(), "/"+onlineScope+"/"+encoderScope)
		}
		if err != nil {
			return err
		}
	}
	for variable := range t.Store().IterVariables() {
		if from, needed := source(variable.Path()); named != nil && from != "" {
			if found, err := set(variable, path, named, from); err != nil {
				return err
			} else if needed && !found {
				return fmt.Errorf("%s: no %s of %s, which %s needs", path, from, variable.Shape(), t.vit.Name)
			}
		}
	}
	return train.CopyScope(t.Store(), "/"+onlineScope, "/"+targetScope)
}

// readCheckpoint reads a checkpoint; named is nil for other files of weights.
func readCheckpoint(path string) (named map[string]*tensors.Tensor, err error) {
	if !strings.HasSuffix(path, ".safetensors") {
		return nil, nil
	}
	named, metadata, err := safetensors.Read(path)
	if err != nil || metadata["position"] == "" {
		return nil, err
	}
	return named, nil
}

// set gives a variable the value that a checkpoint has under a name. It reports whether there is one of its shape.
func set(variable *model.Variable, path string, named map[string]*tensors.Tensor, from string) (found bool, err error) {
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

// Branch is one of the two branches.
type Branch string

// The branches.
const (
	Online Branch = onlineScope
	Target Branch = targetScope
)

// Encoder returns the encoder of a branch in place: what it is, its store, and the scope of its variables. Later steps change it.
func (t *Branches[M]) Encoder(branch Branch) (vit encoder.ViT, store *model.Store, scope string) {
	return t.vit, t.Store(), "/" + string(branch) + "/" + encoderScope
}

// SaveEncoder writes the encoder of a branch, without heads and optimizer, to a .safetensors file under timm's names, for weights.ReadViT. timm loads
// it strictly if it has no filter.
func (t *Branches[M]) SaveEncoder(path string, branch Branch, metadata map[string]string) error {
	vit, store, scope := t.Encoder(branch)
	return weights.ExportViT(path, store, scope, vit, nil, metadata)
}
