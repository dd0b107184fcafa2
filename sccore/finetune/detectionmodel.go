package finetune

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/detection"
	"github.com/semcon/semcon/sccore/safetensors"
	"github.com/semcon/semcon/sccore/weights"
)

// detectorKey is the metadata of a trained detector's file.
const detectorKey = "semcon_detector"

// DetectorDescription says what a file of a trained [Detector] holds and how to use it.
type DetectorDescription struct {
	Detector   Detector                  `json:"detector"`
	Dataset    string                    `json:"dataset"`    // The dataset that it was trained on, for people.
	Categories []datasets.ObjectCategory `json:"categories"` // Of the classes.
	Inference  DetectionInference        `json:"inference"`
	Mean       [3]float64                `json:"mean"` // Of red, green and blue in [0, 1], as in [datasets.Preprocessing].
	Std        [3]float64                `json:"std"`
}

// Inference is how images are tested at a scale.
func (t DetectionTraining) Inference(scale Scale) DetectionInference {
	return DetectionInference{Scale: scale, Divisor: t.Detector.divisor()}
}

// Export writes the weights that detections need, in PyTorch's layout, and the description. The write is atomic.
func (t *DetectionTrainer) Export(path string, d DetectorDescription, metadata map[string]string) error {
	d.Detector, d.Mean, d.Std = t.config.Detector, t.config.Mean, t.config.Std
	encoded, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	all := map[string]string{detectorKey: string(encoded)}
	maps.Copy(all, metadata)
	return weights.ExportModel(path, t.Store(), []string{"/" + optimizerScope, "/" + accumulatedScope}, all)
}

// DetectionModel is a trained detector that is ready to find objects.
type DetectionModel struct {
	DetectorDescription

	backend compute.Backend
	store   *model.Store
	detect  *model.Exec
	stages  *model.Exec // Nil until it is asked for.
}

// OpenDetectionModel reads a file that [DetectionTrainer.Export] wrote. The error is one line that names the file.
func OpenDetectionModel(b compute.Backend, path string) (*DetectionModel, error) {
	named, metadata, err := safetensors.Read(path)
	if err != nil {
		return nil, err
	}
	text, ok := metadata[detectorKey]
	if !ok {
		return nil, fmt.Errorf("%s: holds no detector; \"semcon run detection\" trains one", path)
	}
	m := &DetectionModel{backend: b, store: model.NewStore()}
	if err := json.Unmarshal([]byte(text), &m.DetectorDescription); err != nil {
		return nil, fmt.Errorf("%s: description of the detector: %w", path, err)
	}
	d := m.Detector
	if err := cmp.Or(d.Check(), m.Inference.Check()); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	switch canvas := m.Inference.canvas(&datasets.SegmentedImage{Height: 1, Width: 2}); {
	case len(m.Categories) != d.Classes:
		return nil, fmt.Errorf("%s: %d categories for a detector of %d classes", path, len(m.Categories), d.Classes)
	case m.Inference.Divisor%d.divisor() != 0:
		return nil, fmt.Errorf("%s: divisor %d for patches of %d pixels", path, m.Inference.Divisor, d.ViT.PatchSize)
	default:
		m.detect, err = newDetectExec(b, m.store, d, m.Mean, m.Std)
		if err == nil {
			// Compiling makes the variables, which the file must have exactly.
			err = caught(func() error {
				_, err := m.detect.Compile(shapes.Make(dtypes.Uint8, 1, canvas.Height, canvas.Width, 3), shapes.Make(dtypes.Int32, 1, 2))
				return err
			})
		}
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
func (m *DetectionModel) Close() {
	m.detect.Finalize()
	if m.stages != nil {
		m.stages.Finalize()
	}
	m.store.Finalize()
}

// Entering returns the boxes that enter each of the three stages for an image, x1, y1, x2, y2 in its pixels, the best proposals first: what the region proposal
// network proposes, and what the stages before have made of the same boxes.
func (m *DetectionModel) Entering(ctx context.Context, a *datasets.SegmentedImage) (stages [3][][4]float64, err error) {
	if m.stages == nil {
		m.stages, err = model.NewExec(m.backend, m.store, func(scope *model.Scope, pixels, sizes *Node) []*Node {
			found := m.Detector.detect(scope, Normalize(pixels, sizes, m.Mean, m.Std), sizes)
			return []*Node{found.Entering[0], found.Entering[1], found.Entering[2], found.Entered}
		})
		if err != nil {
			return stages, err
		}
	}
	_, err = m.Inference.Predict(ctx, a, func(_ context.Context, in Canvases) (Raw, error) {
		down, across := float64(a.Height)/float64(in.Fill[0]), float64(a.Width)/float64(in.Fill[1])
		return Raw{}, caught(func() error {
			outputs, err := m.stages.Call(in.tensors()...)
			if err != nil {
				return err
			}
			entered := tensors.MustCopyFlatData[bool](outputs[len(stages)])
			for i := range stages {
				boxes := tensors.MustCopyFlatData[float32](outputs[i])
				for k, there := range entered {
					if b := boxes[4*k:]; there {
						stages[i] = append(stages[i], [4]float64{float64(b[0]) * across, float64(b[1]) * down, float64(b[2]) * across, float64(b[3]) * down})
					}
				}
			}
			for _, output := range outputs {
				output.MustFinalizeAll()
			}
			return nil
		})
	})
	return stages, err
}

// Detect returns what the model finds, for [DetectionInference].
func (m *DetectionModel) Detect(ctx context.Context, canvases Canvases) (Raw, error) {
	return detectWith(m.detect)(ctx, canvases)
}

// newDetectExec returns the graph from canvases and what images fill of them to detections. It is compiled for each size and number of canvases.
func newDetectExec(b compute.Backend, store *model.Store, d Detector, mean, std [3]float64) (*model.Exec, error) {
	return model.NewExec(b, store, func(scope *model.Scope, pixels, sizes *Node) []*Node {
		found := d.detect(scope, Normalize(pixels, sizes, mean, std), sizes)
		return []*Node{found.Boxes, found.Scores, found.Labels, found.Present, found.Masks}
	})
}

// tensors returns the inputs of a graph of newDetectExec.
func (in Canvases) tensors() []any {
	return []any{tensors.FromFlatDataAndDimensions(in.Pixels, in.Count, in.Size.Height, in.Size.Width, 3), tensors.FromFlatDataAndDimensions(in.Fill, in.Count, 2)}
}

// detectWith returns the [Detect] of a graph.
func detectWith(exec *model.Exec) Detect {
	return func(ctx context.Context, in Canvases) (raw Raw, err error) {
		if err := ctx.Err(); err != nil {
			return raw, err
		}
		err = caught(func() error {
			outputs, err := exec.Call(in.tensors()...)
			if err != nil {
				return err
			}
			raw = Raw{
				Places: outputs[1].Shape().Dim(1), Boxes: tensors.MustCopyFlatData[float32](outputs[0]), Scores: tensors.MustCopyFlatData[float32](outputs[1]),
				Labels: tensors.MustCopyFlatData[int32](outputs[2]), Present: tensors.MustCopyFlatData[bool](outputs[3]), Masks: tensors.MustCopyFlatData[float32](outputs[4]),
			}
			for _, output := range outputs {
				output.MustFinalizeAll()
			}
			return nil
		})
		const cells = detection.MaskSize * detection.MaskSize
		if err == nil && len(raw.Masks) != in.Count*raw.Places*cells {
			err = fmt.Errorf("%d numbers of masks for %d detections", len(raw.Masks), in.Count*raw.Places)
		}
		return raw, err
	}
}
