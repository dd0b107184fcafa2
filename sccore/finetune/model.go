package finetune

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/safetensors"
	"github.com/semcon/semcon/sccore/weights"
)

// descriptionKey is the metadata of a trained segmenter's file.
const descriptionKey = "semcon_segmenter"

// Description says what a file of a trained [Segmenter] holds and how to use it.
type Description struct {
	Segmenter Segmenter  `json:"segmenter"`
	Dataset   string     `json:"dataset"` // The dataset that it was trained on, for people.
	Classes   []string   `json:"classes"`
	Colours   []uint32   `json:"colours"` // Of the classes, 0xRRGGBB.
	Inference Inference  `json:"inference"`
	Mean      [3]float64 `json:"mean"` // Of red, green and blue in [0, 1], as in [datasets.Preprocessing].
	Std       [3]float64 `json:"std"`
}

// Export writes the weights that predictions need, with mmsegmentation's names and PyTorch's layout, and the description. The write is atomic.
func (t *Trainer) Export(path string, d Description, metadata map[string]string) error {
	d.Segmenter, d.Mean, d.Std = t.config.Segmenter, t.config.Mean, t.config.Std
	encoded, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	all := map[string]string{descriptionKey: string(encoded)}
	for key, value := range metadata {
		all[key] = value
	}
	return weights.ExportModel(path, t.Store(), []string{"/" + optimizerScope, "/" + accumulatedScope, "/auxiliary_head"}, all)
}

// Model is a trained segmenter that is ready to segment images.
type Model struct {
	Description

	store  *model.Store
	logits *model.Exec
}

// OpenModel reads a file that [Trainer.Export] wrote. The error is one line that names the file.
func OpenModel(b compute.Backend, path string) (*Model, error) {
	named, metadata, err := safetensors.Read(path)
	if err != nil {
		return nil, err
	}
	text, ok := metadata[descriptionKey]
	if !ok {
		return nil, fmt.Errorf("%s: holds no segmenter; \"semcon run fine-tune\" trains one", path)
	}
	m := &Model{store: model.NewStore()}
	if err := json.Unmarshal([]byte(text), &m.Description); err != nil {
		return nil, fmt.Errorf("%s: description of the segmenter: %w", path, err)
	}
	if err := errors.Join(m.Segmenter.Check(), m.Inference.Check()); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(m.Classes) != m.Segmenter.Classes || len(m.Colours) != m.Segmenter.Classes {
		return nil, fmt.Errorf("%s: %d classes and %d colours for a segmenter of %d classes", path, len(m.Classes), len(m.Colours), m.Segmenter.Classes)
	}
	m.logits, err = newSegmentExec(b, m.store, m.Segmenter, m.Mean, m.Std)
	if err == nil {
		// Compiling makes the variables, which the file must have exactly.
		side := 6 * m.Segmenter.ViT.PatchSize
		err = caught(func() error {
			_, err := m.logits.Compile(shapes.Make(dtypes.Uint8, segmentBatch, side, side, 3), shapes.Make(dtypes.Int32, segmentBatch, 2))
			return err
		})
	}
	if err == nil {
		err = weights.ImportModel(named, m.store)
	}
	if err != nil {
		m.store.Finalize()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// Close frees the model's memory.
func (m *Model) Close() {
	m.logits.Finalize()
	m.store.Finalize()
}

// Segment returns the logits of crops, for [Inference].
func (m *Model) Segment(ctx context.Context, crops Crops) (Logits, error) {
	return segmentWith(m.logits, m.Segmenter)(ctx, crops)
}
