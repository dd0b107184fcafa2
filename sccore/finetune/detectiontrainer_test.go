package finetune

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/detection"
	"github.com/semcon/semcon/sccore/encoder"
)

// tinyDetection is a training of seconds on the Go engine, on scenes of 32².
func tinyDetection() DetectionTraining {
	vit := encoder.ViT{Name: "tiny", PatchSize: 8, Dim: 8, Depth: 2, NumHeads: 2, GridSize: 4, Positions: encoder.DINOPositions, InitStd: 0.2}
	config := detection.Config{
		Classes: 6, Channels: 8, Convolutions: 1, Hidden: 16, AnchorSamples: 16, TrainProposals: 16, TestProposals: 16, BoxSamples: 16, Candidates: 32, Detections: 10,
	}
	return DetectionTraining{
		Training: Training{
			Optimizer: Optimizer{LearningRate: 3e-3, LayerDecay: 0.9, WeightDecay: 0.05, WarmUp: 1, WarmUpRatio: 0.1, Milestones: [2]float64{0.7, 0.9}, DropPath: 0.1},
			Batch:     2, Parts: 1, Steps: 4, Mean: [3]float64{0.5, 0.5, 0.5}, Std: [3]float64{0.25, 0.25, 0.25},
		},
		Detector:  Detector{vit, config},
		Transform: DetectionTransform{MinShort: 24, MaxShort: 32, Step: 4, Long: 32, CropShort: [3]int{32, 40, 48}, MinCrop: 20, MaxCrop: 32},
		Objects:   3, MaskSize: 16,
	}
}

// upright are scenes of which every second one is cut to the upright half.
func upright(n, size int) *datasets.ObjectImages {
	scenes := synthetic.Scenes(n, size, 1).Instances()
	truth := scenes.Truth
	images := append([]datasets.InstanceImage{}, truth.Images...)
	var annotations []datasets.Annotation
	for i := range images {
		if i%2 == 1 {
			images[i].Width = size / 2
		}
	}
	for _, a := range truth.Annotations {
		if a.Image%2 == 0 {
			w := float64(size / 2)
			a.Mask = datasets.InstanceMask{Polygons: [][]float64{{a.Box[0], a.Box[1], min(a.Box[0]+a.Box[2], w), a.Box[1], min(a.Box[0]+a.Box[2], w), a.Box[1] + a.Box[3]}}}
		}
		annotations = append(annotations, a)
	}
	return datasets.NewObjectImages("upright", "upright", datasets.NewInstances("upright.json", images, truth.Categories, annotations), func(i int) (*datasets.SegmentedImage, error) {
		a, err := scenes.Read(i)
		if err != nil || i%2 == 0 {
			return a, err
		}
		half := &datasets.SegmentedImage{Name: a.Name, Height: size, Width: size / 2}
		for y := range size {
			half.Pixels = append(half.Pixels, a.Pixels[3*size*y:][:3*size/2]...)
		}
		return half, nil
	})
}

// TestDetectionInBFloat16 compares the losses of a first step with those in float32.
func TestDetectionInBFloat16(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	var losses [2]float64
	for i, dtype := range []dtypes.DType{dtypes.Float32, dtypes.BFloat16} {
		config := tinyDetection()
		config.Detector.ViT.ComputeDType = dtype
		trainer, err := NewDetectionTrainer(testbackend.Go(t), config)
		if err != nil {
			t.Fatal(err)
		}
		defer trainer.Close()
		trainer.Images = upright(4, 32)
		if err := trainer.Begin(1); err != nil {
			t.Fatal(err)
		}
		step, err := trainer.Step(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		losses[i] = step.Loss
	}
	if ratio := losses[1] / losses[0]; losses[0] == losses[1] || !(ratio > 0.98 && ratio < 1.02) {
		t.Errorf("the loss is %.4f in float32 and %.4f in bfloat16", losses[0], losses[1])
	}
}

// TestDetectionTrainingResumes trains to the end, and once more from the middle in another trainer, as after a kill. Both end with the same bytes.
func TestDetectionTrainingResumes(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	// Two canvases and two parts.
	config, images := tinyDetection(), upright(4, 32)
	config.Transform.Long, config.Parts = 48, 2
	b, dir, ctx := testbackend.Go(t), t.TempDir(), context.Background()
	var steps []DetectionStep
	var evaluated []string
	for run := range 2 {
		trainer, err := NewDetectionTrainer(b, config)
		if err != nil {
			t.Fatal(err)
		}
		defer trainer.Close()
		trainer.Images = images
		if run == 0 {
			err = trainer.Begin(1)
		} else {
			_, err = trainer.Resume(filepath.Join(dir, "half"))
		}
		if err != nil {
			t.Fatal(err)
		}
		for trainer.Done() < config.Steps {
			if trainer.Done() == config.Steps/2 && run == 0 {
				if err := trainer.Save(filepath.Join(dir, "half"), ""); err != nil {
					t.Fatal(err)
				}
			}
			step, err := trainer.Step(ctx)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%+v", step)
			if sum := step.Proposals + step.Classes + step.Boxes + step.Masks; sum/step.Loss < 0.9999 || sum/step.Loss > 1.0001 {
				t.Errorf("the losses of %+v do not add up", step)
			}
			steps = append(steps, step)
		}
		if err := trainer.Save(filepath.Join(dir, fmt.Sprint(run)), ""); err != nil {
			t.Fatal(err)
		}
		description := DetectorDescription{Dataset: images.Name, Categories: images.Truth.Categories, Inference: config.Inference()}
		if err := trainer.Export(filepath.Join(dir, "model"), description, nil); err != nil {
			t.Fatal(err)
		}
		result, err := description.Inference.Evaluate(ctx, images, trainer.Detect)
		if err != nil {
			t.Fatal(err)
		}
		evaluated = append(evaluated, fmt.Sprint(result.Boxes, result.Masks, len(result.Detections)))
	}
	if last := len(steps) - 1; steps[last] != steps[config.Steps-1] {
		t.Errorf("after resuming, the last step is %+v, and was %+v", steps[last], steps[config.Steps-1])
	}
	var files [2][]byte
	for run := range files {
		var err error
		if files[run], err = os.ReadFile(filepath.Join(dir, fmt.Sprint(run))); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(files[0], files[1]) {
		t.Error("the resumed run ends with other bytes")
	}

	// The exported model finds what the trained one did.
	model, err := OpenDetectionModel(b, filepath.Join(dir, "model"))
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	result, err := model.Inference.Evaluate(ctx, images, model.Detect)
	if err != nil {
		t.Fatal(err)
	}
	evaluated = append(evaluated, fmt.Sprint(result.Boxes, result.Masks, len(result.Detections)))
	if evaluated[1] != evaluated[0] || evaluated[2] != evaluated[0] || len(result.Detections) == 0 {
		t.Errorf("evaluations differ, or nothing is found: %s", strings.Join(evaluated, "; "))
	}
}
