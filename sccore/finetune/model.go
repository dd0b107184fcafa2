package finetune

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/dsnet/try"
	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/safetensors"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/weights"
)

// The networks that files hold, whose descriptions are in the metadata below modelKey and the name.
const (
	modelKey  = "semcon_"
	segmenter = "segmenter"
	detector  = "detector"
)

// SegmenterDescription says what a file of a trained [Segmenter] holds and how to use it.
type SegmenterDescription struct {
	Segmenter Segmenter             `json:"segmenter"`
	Dataset   string                `json:"dataset"` // The dataset that it was trained on, for people.
	Classes   []string              `json:"classes"`
	Colours   []uint32              `json:"colours"` // Of the classes, 0xRRGGBB.
	Inference SegmentationInference `json:"inference"`
	Mean      [3]float64            `json:"mean"` // Of red, green and blue in [0, 1], as in [datasets.Preprocessing].
	Std       [3]float64            `json:"std"`
}

// DetectorDescription says what a file of a trained [Detector] holds and how to use it.
type DetectorDescription struct {
	Detector   Detector                  `json:"detector"`
	Dataset    string                    `json:"dataset"`    // The dataset that it was trained on, for people.
	Categories []datasets.ObjectCategory `json:"categories"` // Of the classes.
	Inference  DetectionInference        `json:"inference"`
	Mean       [3]float64                `json:"mean"` // Of red, green and blue in [0, 1], as in [datasets.Preprocessing].
	Std        [3]float64                `json:"std"`
}

// Export writes the weights that predictions need, with mmsegmentation's names and PyTorch's layout, and the description. The write is atomic.
func (t *SegmentationTrainer) Export(path string, d SegmenterDescription, metadata map[string]string) error {
	d.Segmenter, d.Mean, d.Std = t.config.Segmenter, t.config.Mean, t.config.Std
	return t.network.export(path, segmenter, d, metadata, "/auxiliary_head")
}

// Export writes the weights that detections need, in PyTorch's layout, and the description. The write is atomic.
func (t *DetectionTrainer) Export(path string, d DetectorDescription, metadata map[string]string) error {
	d.Detector, d.Mean, d.Std = t.config.Detector, t.config.Mean, t.config.Std
	return t.network.export(path, detector, d, metadata)
}

func (n network) export(path, name string, description any, metadata map[string]string, without ...string) error {
	encoded, err := json.Marshal(description)
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	all := map[string]string{modelKey + name: string(encoded)}
	maps.Copy(all, metadata)
	return weights.ExportModel(path, n.store, append(without, "/"+optimizerScope, "/"+accumulatedScope), all)
}

// open reads a file of a trained network into description, which check then checks, and compiles the graph that predict returns for an image of a
// size. name and experiment say what the network is and what trains it.
func open(b compute.Backend, path, name, experiment string, description any, vit *encoder.ViT, check func() error, predict func() (graph, datasets.Size)) (n network, err error) {
	defer try.Handle(&err)
	named, metadata := try.E2(safetensors.Read(path))
	text, ok := metadata[modelKey+name]
	if !ok {
		return n, fmt.Errorf("%s: holds no %s; \"semcon run %s\" trains one", path, name, experiment)
	}
	if err := json.Unmarshal([]byte(text), description); err != nil {
		return n, fmt.Errorf("%s: description of the %s: %.200w", path, name, err)
	}
	if err := cmp.Or(check(), weights.FitsIn(named, *vit)); err != nil {
		return n, fmt.Errorf("%s: %w", path, err)
	}
	graph, size := predict()
	if n, err = newNetwork(b, model.NewStore(), graph); err == nil {
		// Compiling makes the variables, which the file must have exactly.
		err = backend.Catch(func() error {
			_, err := n.exec.Compile(shapes.Make(dtypes.Uint8, 1, size.Height, size.Width, 3), shapes.Make(dtypes.Int32, 1, 2))
			return err
		})
	}
	if err == nil {
		err = weights.ImportModel(named, n.store)
	}
	if err != nil {
		n.store.Finalize()
		return n, fmt.Errorf("%s: %w", path, err)
	}
	return n, nil
}

// Close frees the network's memory.
func (n network) Close() {
	n.exec.Finalize()
	n.store.Finalize()
}

// SegmentationModel is a trained segmenter that is ready to segment images.
type SegmentationModel struct {
	SegmenterDescription
	network
}

// OpenSegmentationModel reads a file that [SegmentationTrainer.Export] wrote. The error is one line that names the file.
func OpenSegmentationModel(b compute.Backend, path string) (_ *SegmentationModel, err error) {
	m := &SegmentationModel{}
	s := &m.Segmenter
	m.network, err = open(b, path, segmenter, "fine-tune", &m.SegmenterDescription, &s.ViT, func() error {
		err := cmp.Or(settings.Check(s), settings.CheckGroup("inference", m.Inference))
		if err == nil {
			m.Inference, err = s.Inference(m.Inference)
		}
		if err != nil || len(m.Classes) == s.Classes && len(m.Colours) == s.Classes {
			return err
		}
		return fmt.Errorf("%d classes and %d colours for a segmenter of %d classes", len(m.Classes), len(m.Colours), s.Classes)
	}, func() (graph, datasets.Size) {
		side := 6 * s.ViT.PatchSize
		return s.predict(m.Mean, m.Std), datasets.Size{Height: side, Width: side}
	})
	return m, err
}

// Segment returns the logits of crops, for [SegmentationInference].
func (m *SegmentationModel) Segment(ctx context.Context, crops Canvases) (Logits, error) {
	return m.segment(ctx, m.Segmenter, crops)
}

// DetectionModel is a trained detector that is ready to find objects.
type DetectionModel struct {
	DetectorDescription
	network
}

// Inference is how images are tested, at the largest scale of the training images.
func (t DetectionTraining) Inference() DetectionInference {
	return DetectionInference{Scale: t.Transform.scale(), Divisor: t.Detector.divisor()}
}

// OpenDetectionModel reads a file that [DetectionTrainer.Export] wrote. The error is one line that names the file.
func OpenDetectionModel(b compute.Backend, path string) (_ *DetectionModel, err error) {
	m := &DetectionModel{}
	d := &m.Detector
	m.network, err = open(b, path, detector, "detection", &m.DetectorDescription, &d.ViT, func() error {
		switch err := cmp.Or(settings.Check(d), settings.CheckGroup("inference", m.Inference)); {
		case err != nil:
			return err
		case len(m.Categories) != d.Classes:
			return fmt.Errorf("%d categories for a detector of %d classes", len(m.Categories), d.Classes)
		case m.Inference.Divisor%d.divisor() != 0:
			return fmt.Errorf("divisor %d for patches of %d pixels", m.Inference.Divisor, d.ViT.PatchSize)
		}
		return nil
	}, func() (graph, datasets.Size) {
		return d.predict(m.Mean, m.Std), m.Inference.canvas(&datasets.SegmentedImage{Height: 1, Width: 2})
	})
	return m, err
}

// Detect returns what the model finds, for [DetectionInference].
func (m *DetectionModel) Detect(ctx context.Context, canvases Canvases) (Raw, error) {
	return m.detect(ctx, canvases)
}

// Entering returns what Predict of the model's [DetectionInference] does, and the boxes that enter each of the three stages, x1, y1, x2, y2 in pixels of the image,
// the best proposals first: what the region proposal network proposes, and what the stages before have made of the same boxes.
func (m *DetectionModel) Entering(ctx context.Context, a *datasets.SegmentedImage) (found []Found, stages [3][][4]float64, err error) {
	found, err = m.Inference.Predict(ctx, a, func(ctx context.Context, in Canvases) (Raw, error) {
		raw, err := m.detect(ctx, in)
		down, across := float64(a.Height)/float64(in.Fill[0]), float64(a.Width)/float64(in.Fill[1])
		for i, boxes := range raw.Entering {
			for k, there := range raw.Entered {
				if b := boxes[4*k:]; there {
					stages[i] = append(stages[i], [4]float64{float64(b[0]) * across, float64(b[1]) * down, float64(b[2]) * across, float64(b[3]) * down})
				}
			}
		}
		return raw, err
	})
	return found, stages, err
}
