package siamese

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/sccore/weights"
)

// position is where a run stands; it travels in its checkpoint's metadata, beside the caller's note.
type position struct {
	Done    int     `json:"done"`
	LossSum float64 `json:"loss_sum"`
}

// Save writes the whole state of the current run to path, whole or not at all, with a note of the caller's.
func (t *Trainer) Save(path, note string) error {
	encoded, err := json.Marshal(position{t.done, t.lossSum})
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return weights.SaveCheckpoint(path, t.store, map[string]string{"position": string(encoded), "note": note})
}

// Resume sets the state to what Save wrote and returns its note. The caller has begun the same run before; training then goes on as if
// it had never stopped, bit for bit on the same backend. The error names the file.
func (t *Trainer) Resume(path string) (note string, err error) {
	metadata, err := weights.LoadCheckpoint(path, t.store)
	if err != nil {
		return "", err
	}
	var p position
	if err := json.Unmarshal([]byte(metadata["position"]), &p); err != nil {
		return "", fmt.Errorf("%s: position in the run: %w", path, err)
	}
	if p.Done < 0 || p.Done > t.Steps() {
		return "", fmt.Errorf("%s: stands at step %d of %d", path, p.Done, t.Steps())
	}
	t.done, t.lossSum, t.epoch = p.Done, p.LossSum, -1
	return metadata["note"], nil
}

// SaveOnline writes the online encoder and its heads, without optimizer state, to path. Names are the variables' paths below the online
// branch, with dots for slashes.
func (t *Trainer) SaveOnline(path string, metadata map[string]string) error {
	named := map[string]*tensors.Tensor{}
	for variable := range t.store.Scope("/" + onlineScope).IterVariables() {
		value, err := variable.Value()
		if err != nil {
			return fmt.Errorf("writing %s: %w", path, err)
		}
		name := strings.TrimPrefix(variable.Path(), "/"+onlineScope+"/")
		named[strings.ReplaceAll(name, "/", ".")] = value
	}
	return weights.WriteSafetensors(path, named, metadata)
}
