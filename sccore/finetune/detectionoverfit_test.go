package finetune

import (
	"context"
	"flag"
	"testing"

	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/detection"
	"github.com/semcon/semcon/sccore/encoder"
)

var overfit = flag.Bool("overfit", false, "train a detector on 8 scenes until it finds their objects, in minutes of processor time on XLA")

// TestDetectorOverfits trains on 8 scenes until it finds their objects, by the judge of COCO. It is too long for every day; a smaller one is in
// sccore/detection:
//
//	go test ./sccore/finetune -run DetectorOverfits -overfit -v
func TestDetectorOverfits(t *testing.T) {
	if !*overfit {
		t.Skip("runs with -overfit")
	}
	config := tinyDetection()
	vit, err := encoder.ViTByName("vit-tiny")
	if err != nil {
		t.Fatal(err)
	}
	config.Detector = Detector{vit, detection.Config{
		Classes: 6, Channels: 32, Convolutions: 1, Hidden: 64, AnchorSamples: 64, TrainProposals: 64, TestProposals: 32, BoxSamples: 32, Candidates: 64, Detections: 10,
	}}
	config.Optimizer.DropPath, config.Optimizer.WarmUp, config.Optimizer.LayerDecay = 0, 20, 1
	config.Transform = DetectionTransform{MinShort: 64, MaxShort: 64, Step: 1, Long: 64, CropShort: [3]int{64, 64, 64}, MinCrop: 64, MaxCrop: 64}
	config.MaskSize, config.Batch, config.Steps = 56, 8, 300
	trainer, err := NewDetectionTrainer(testbackend.Fastest(t), config)
	if err != nil {
		t.Fatal(err)
	}
	defer trainer.Close()
	trainer.Images = synthetic.Scenes(8, 64, 1).Instances()
	if err := trainer.Begin(1); err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	inference := config.Inference()
	for trainer.Done() < config.Steps {
		step, err := trainer.Step(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if trainer.Done()%25 == 0 {
			t.Logf("step %d: %+v", trainer.Done(), step)
		}
	}
	result, err := inference.Evaluate(ctx, trainer.Images, trainer.Detect)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d detections, boxes %+v, masks %+v", len(result.Detections), result.Boxes, result.Masks)
	if result.Boxes.AP < 0.9 || result.Masks.AP < 0.8 {
		t.Errorf("AP %.3f of boxes and %.3f of masks, want 0.9 and 0.8", result.Boxes.AP, result.Masks.AP)
	}
}
