package sccore

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/sccore/weights"
)

// position is where a run stands. It travels in its checkpoint's metadata, beside the configuration and the caller's note. Orders, views and
// all else that is drawn depend on seed and step alone.
type position struct {
	Seed uint64 `json:"seed"`
	Done int    `json:"done"`
}

// Save writes the whole state of the run to path, whole or not at all, with a note of the caller's.
func (t *Trainer) Save(path, note string) error {
	at, err := json.Marshal(position{t.seed, t.done})
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	config, err := json.Marshal(t.config)
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	err = weights.SaveCheckpoint(path, t.store, map[string]string{"position": string(at), "config": string(config), "note": note})
	if err == nil {
		t.saved = path
	}
	return err
}

// Resume sets the run to what Save wrote and returns its note. Training then goes on as if it had never stopped, bit for bit on the same
// backend. The file has to be of the trainer's configuration, as data have to be the same; the error names it.
func (t *Trainer) Resume(path string) (note string, err error) {
	// The optimizer's count of steps and the moments need values to be replaced.
	if err := t.Begin(0); err != nil {
		return "", err
	}
	metadata, err := weights.LoadCheckpoint(path, t.store)
	if err != nil {
		return "", err
	}
	var at position
	if err := json.Unmarshal([]byte(metadata["position"]), &at); err != nil {
		return "", fmt.Errorf("%s: position in the run: %w", path, err)
	}
	config := t.config
	if err := json.Unmarshal([]byte(metadata["config"]), &config); err != nil {
		return "", fmt.Errorf("%s: configuration of the run: %w", path, err)
	}
	switch {
	case config != t.config:
		return "", fmt.Errorf("%s: belongs to a run with another configuration", path)
	case at.Done < 0 || at.Done > t.config.Steps:
		return "", fmt.Errorf("%s: stands at step %d of %d", path, at.Done, t.config.Steps)
	}
	t.seed, t.done, t.saved = at.Seed, at.Done, path
	return metadata["note"], nil
}

// BeginFrom is [Trainer.Begin] with weights from a file in both branches: the online branch of a run's checkpoint, which is what the paper keeps
// of a run, of any configuration with the same encoder; or a transformer that weights.ReadViT reads. What the file lacks has the initial values of the seed: the filter and heads
// of an official checkpoint, and heads of other sizes.
func (t *Trainer) BeginFrom(path string, seed uint64) error {
	if err := t.Begin(seed); err != nil {
		return err
	}
	if err := t.adopt(path); err != nil {
		return err
	}
	return t.copyBranch(onlineScope, targetScope)
}

// adopt sets the online branch from a file.
func (t *Trainer) adopt(path string) error {
	if strings.HasSuffix(path, ".safetensors") {
		named, metadata, err := weights.ReadSafetensors(path)
		if err != nil {
			return err
		}
		if metadata["position"] != "" {
			for variable := range t.store.Scope("/" + onlineScope).IterVariables() {
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
					return fmt.Errorf("%s: no %s of %s, which %s needs", path, variable.Path(), variable.Shape(), t.step.vit.Name)
				}
			}
			return nil
		}
	}
	read, err := weights.ReadViT(path, t.step.vit, "")
	if err != nil {
		return err
	}
	return read.Apply(t.store, "/"+onlineScope+"/"+encoderScope)
}

// SaveEncoder writes the encoder of a branch, without heads and optimizer, to a .safetensors under timm's names, for weights.ReadViT. timm
// loads it strictly if it has no filter.
func (t *Trainer) SaveEncoder(path string, branch Branch, metadata map[string]string) error {
	vit, store, scope := t.Encoder(branch)
	return weights.ExportViT(path, store, scope, vit, nil, metadata)
}
