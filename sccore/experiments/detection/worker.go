package detection

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/internal/usage"
	"github.com/semcon/semcon/sccore/finetune"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/encoders"
	"github.com/semcon/semcon/sccore/train"
)

// modelFile holds the trained model of a cell, resultsFile its detections in the test images, and finalFile the end of its training.
const (
	modelFile   = "model.safetensors"
	resultsFile = "results.json"
	finalFile   = "final.safetensors"
)

// testBatch is the number of test images that are seen at once.
const testBatch = 4

type run = study.Run[Config, Data]

// worker runs cells one after the other. It keeps the trainer that it compiled last, which serves all encoders of one architecture.
type worker struct {
	backend compute.Backend
	trainer *finetune.DetectionTrainer
	config  finetune.DetectionTraining // Of the trainer.
}

// Close frees the memory of the trainer.
func (w *worker) Close() {
	if w.trainer != nil {
		w.trainer.Close()
		w.trainer = nil
	}
}

// prepare returns the trainer of a configuration.
func (w *worker) prepare(config finetune.DetectionTraining) (*finetune.DetectionTrainer, error) {
	if w.trainer != nil && w.config == config {
		return w.trainer, nil
	}
	w.Close()
	trainer, err := finetune.NewDetectionTrainer(w.backend, config)
	if err != nil {
		return nil, err
	}
	w.trainer, w.config = trainer, config
	return trainer, nil
}

// runState is the state of a run that its checkpoints hold beside the trainer's.
type runState struct {
	Seconds float64                `json:"seconds"` // Training time.
	Last    finetune.DetectionStep `json:"last"`
}

// Run trains a cell's model and records its AP on the test images.
func (w *worker) Run(r *run) error {
	c := r.Cell.Config
	vit, store, err := c.Encoder.Load(r.Cell.Seed)
	if err != nil {
		return err
	}
	defer store.Finalize()
	config := c.training(vit, len(r.Data.train.Truth.Categories))
	if err := config.Check(); err != nil {
		return study.BadOption{Err: err}
	}
	trainer, err := w.prepare(config)
	if err != nil {
		return err
	}
	trainer.Images, trainer.Pretrained = r.Data.trained, store
	if err := trainer.Begin(uint64(r.Cell.Seed)); err != nil {
		return err
	}
	var trained runState
	peak := usage.PeakResident(func() { trained, err = fit(r, trainer) })
	if err != nil {
		return err
	}
	r.Say("testing on %d images", r.Data.tested.Len())
	inference := config.Inference(c.testScale())
	tested, err := inference.Evaluate(r.Context, r.Data.tested, testBatch, trainer.Detect)
	if err != nil {
		return err
	}
	if tested.Boxes.AP < 0 {
		return errors.New("the test images show no object")
	}
	if err := metrics.WriteDetectionsFile(filepath.Join(r.Dir, resultsFile), tested.Detections); err != nil {
		return err
	}
	description := finetune.DetectorDescription{Dataset: r.Data.Title(), Categories: r.Data.train.Truth.Categories, Inference: inference}
	if err := trainer.Export(filepath.Join(r.Dir, modelFile), description, map[string]string{"cell": r.Cell.Name()}); err != nil {
		return err
	}
	return record(r, config, trained, tested, peak)
}

// fit trains the model, from the last checkpoint if there is one.
func fit(r *run, trainer *finetune.DetectionTrainer) (trained runState, err error) {
	began, before := time.Now(), 0.0
	loop := train.Loop[finetune.DetectionStep]{
		Trainer: trainer, Final: finalFile, Keep: 1, Note: &trained,
		Resumed: func(int) { before = trained.Seconds },
		After: func(step finetune.DetectionStep, _ map[string]float64) error {
			trained = runState{before + time.Since(began).Seconds(), step}
			r.Step("loss %.3f", step.Loss)
			return nil
		},
	}
	if err := study.Train(r, &loop); err != nil {
		return trained, err
	}
	return trained, loop.Clean()
}

// record records the result: AP of boxes and of masks, each with COCO's other numbers.
func record(r *run, config finetune.DetectionTraining, trained runState, tested finetune.DetectionResult, peak int64) error {
	c := r.Cell.Config
	dir, err := r.Path("")
	if err != nil {
		return err
	}
	var numbers []study.Number
	for _, kind := range []struct {
		name, letter string
		result       metrics.COCOAP
	}{{boxes, "b", tested.Boxes}, {masks, "m", tested.Masks}} {
		details := map[string]float64{
			"loss": trained.Last.Loss, "images_per_second": float64(c.Steps*c.Batch) / trained.Seconds, "gflop_per_image": 3 * config.FLOPs() / 1e9,
			"detections": float64(len(tested.Detections)),
		}
		for i, value := range kind.result.Numbers() {
			if value >= 0 { // Otherwise the truth has no such object.
				details[fmt.Sprintf(numberNames[i], kind.letter)] = 100 * value
			}
		}
		if peak > 0 {
			details["peak_memory_gb"] = float64(peak) / 1e9
		}
		numbers = append(numbers, study.Number{
			Row: c.Encoder.Row, Column: column(r.Data.Title(), kind.name), Metric: "AP of " + kind.name, Unit: "%", Value: 100 * kind.result.AP,
			Protocol: protocol(r, config), Details: details, Curve: dir, Seconds: trained.Seconds,
		})
	}
	return r.Record(numbers...)
}

// numberNames are the names of COCO's numbers, those of AP as the paper's tables have them.
var numberNames = [12]string{
	"AP_%s", "AP_%s50", "AP_%s75", "AP_%ssmall", "AP_%smedium", "AP_%slarge", "AR_%s1", "AR_%s10", "AR_%s100", "AR_%ssmall", "AR_%smedium", "AR_%slarge",
}

// protocol says how a number is measured.
func protocol(r *run, config finetune.DetectionTraining) string {
	c, a, o, d := r.Cell.Config, r.Cell.Config.Augmentation, r.Cell.Config.Optimizer, config.Detector
	schedule := fmt.Sprintf("falling to 0 as a polynomial of degree %g", o.Power)
	if o.Power == 0 {
		schedule = fmt.Sprintf("divided by 10 after %.3g and %.3g of the steps", o.Milestones[0], o.Milestones[1])
	}
	return fmt.Sprintf("%s and Cascade Mask R-CNN of %d channels on a simple feature pyramid, trained together; %d steps of %d images, shorter side %d to %d px and longer side "+
		"at most %d, half of them cropped before to %d to %d px, mirrored half of the time; AdamW at rate %g %s, warm-up %d steps, layer decay %g, weight decay %g, drop-path %g; "+
		"%d anchors and %d proposals an image in the losses, batch statistics of %d images; %d test images of up to %d×%d px, scores above 0.05, NMS at 0.5 for each class, "+
		"the best %d detections, masks pasted at the image's size; COCO's AP",
		encoders.Describe(d.ViT), d.Channels, c.Steps, c.Batch, a.MinShort, a.MaxShort, a.Long, a.MinCrop, a.MaxCrop, o.LearningRate, schedule, o.WarmUp, o.LayerDecay, o.WeightDecay, o.DropPath,
		d.AnchorSamples, d.BoxSamples, c.Batch/c.Parts, r.Data.tested.Len(), a.Long, a.MaxShort, d.Detections)
}
