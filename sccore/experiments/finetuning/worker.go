package finetuning

import (
	"fmt"
	"math"
	"path/filepath"
	"time"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/internal/usage"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/finetune"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/encoders"
	"github.com/semcon/semcon/sccore/train"
)

// modelFile holds the trained model of a cell, and finalFile the end of its training.
const (
	modelFile = "model.safetensors"
	finalFile = "final.safetensors"
)

type run = study.Run[Config, Data]

// worker runs cells one after the other. It keeps the trainer that it compiled last, which serves all encoders of one architecture.
type worker struct {
	backend compute.Backend
	trainer *finetune.SegmentationTrainer
	config  finetune.SegmentationTraining // Of the trainer.
}

func newWorker(b compute.Backend) *worker { return &worker{backend: b} }

// Close frees the memory of the trainer.
func (w *worker) Close() {
	if w.trainer != nil {
		w.trainer.Close()
	}
}

// prepare returns the trainer of a configuration.
func (w *worker) prepare(config finetune.SegmentationTraining) (*finetune.SegmentationTrainer, error) {
	if w.trainer != nil && w.config == config {
		return w.trainer, nil
	}
	w.Close()
	var err error
	w.trainer, err = finetune.NewSegmentationTrainer(w.backend, config)
	w.config = config
	return w.trainer, err
}

// runState is the state of a run that its checkpoints hold beside the trainer's.
type runState struct {
	Seconds float64                   `json:"seconds"` // Training time.
	Last    finetune.SegmentationStep `json:"last"`
}

// Run trains a cell's model and records its mIoU on the test images.
func (w *worker) Run(r *run) error {
	c := r.Cell.Config
	vit, store, err := c.Encoder.Load(r.Cell.Seed)
	if err != nil {
		return err
	}
	defer store.Finalize()
	config := c.training(vit, len(r.Data.train.Classes))
	if err := config.Check(); err != nil {
		return study.BadOption{Err: err}
	}
	trainer, err := w.prepare(config)
	if err != nil {
		return err
	}
	trainer.Pretrained, trainer.Loader = store, finetune.SegmentationLoader{Images: r.Data.trained, Transform: c.Augmentation}
	trainer.Skipped = func(skipped datasets.Skipped) { r.Warnf("skipped %s: %s", skipped.File, skipped.Reason) }
	if err := trainer.Begin(uint64(r.Cell.Seed)); err != nil {
		return err
	}
	var trained runState
	peak := usage.PeakResident(func() { trained, err = fit(r, trainer) })
	if err != nil {
		return err
	}
	r.Say("evaluating on %d images", r.Data.tested.Len())
	tested, err := c.Inference.Evaluate(r.Context, r.Data.tested, trainer.Segment)
	if err != nil {
		return err
	}
	colours := make([]uint32, len(r.Data.test.Classes))
	for i, colour := range r.Data.test.Colours()[:len(colours)] {
		red, green, blue, _ := colour.RGBA()
		colours[i] = red>>8<<16 | green>>8<<8 | blue>>8
	}
	description := finetune.SegmenterDescription{Dataset: r.Data.Title(), Classes: r.Data.test.Classes, Colours: colours, Inference: c.Inference}
	if err := trainer.Export(filepath.Join(r.Dir, modelFile), description, map[string]string{"cell": r.Cell.Name()}); err != nil {
		return err
	}
	return record(r, config, trained, tested, peak)
}

// fit trains the model, from the last checkpoint if there is one.
func fit(r *run, trainer *finetune.SegmentationTrainer) (trained runState, err error) {
	began, before := time.Now(), 0.0
	loop := train.Loop[finetune.SegmentationStep]{
		Trainer: trainer, Final: finalFile, Keep: 1, Note: &trained,
		Resumed: func(int) { before = trained.Seconds },
		After: func(step finetune.SegmentationStep, _ map[string]float64) error {
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

// record records the result.
func record(r *run, config finetune.SegmentationTraining, trained runState, tested metrics.Segmentation, peak int64) error {
	c := r.Cell.Config
	dir, err := r.Path("")
	if err != nil {
		return err
	}
	details := map[string]float64{
		"accuracy": tested.Accuracy, "loss": trained.Last.Loss, "crops_per_second": float64(c.Steps*c.Batch) / trained.Seconds,
		"gflop_per_crop": 3 * config.Segmenter.FLOPs(config.CropSize) / 1e9,
	}
	for class, iou := range tested.IoU {
		if !math.IsNaN(iou) {
			details["iou "+r.Data.test.Classes[class]] = iou
		}
	}
	if peak > 0 {
		details["peak_memory_gb"] = float64(peak) / 1e9
	}
	return r.Record(study.Number{
		Row: c.Encoder.Row, Column: column(r.Data.Title(), c.Head), Metric: "mIoU", Unit: "%", Value: tested.MIoU, Protocol: protocol(r, config),
		Details: details, Curve: dir, Seconds: trained.Seconds,
	})
}

// protocol says how a number is measured.
func protocol(r *run, config finetune.SegmentationTraining) string {
	c, a, o := r.Cell.Config, r.Cell.Config.Augmentation, r.Cell.Config.Optimizer
	head := fmt.Sprintf("UPerNet of %d channels with an auxiliary FCN", config.Segmenter.Channels)
	if c.Head == finetune.FPN {
		head = fmt.Sprintf("semantic FPN of %d channels", config.Segmenter.Channels)
	}
	schedule := fmt.Sprintf("falling to 0 as a polynomial of degree %g", o.Power)
	if o.Power == 0 {
		schedule = fmt.Sprintf("divided by 10 after %g and %g of the steps", o.Milestones[0], o.Milestones[1])
	}
	how := "whole"
	if c.Inference.Mode == finetune.Slide {
		how = fmt.Sprintf("in crops of %d px every %d px, whose logits are averaged", c.Inference.CropSize, c.Inference.Stride)
	}
	return fmt.Sprintf("%s and %s trained together; %d steps of %d crops of %d px, from images resized into %d×%d px times %g to %g, mirrored half of the time, "+
		"largest class below %g of a crop, photometric distortion %t; AdamW at rate %g %s, warm-up %d steps, layer decay %g, weight decay %g, drop-path %g; "+
		"loss over all pixels, batch statistics of %d crops; %d test images resized into %d×%d px, seen %s, logits resized bilinearly to the annotation's size, "+
		"ignored pixels (255) left out",
		encoders.Describe(config.Segmenter.ViT), head, c.Steps, c.Batch, a.CropSize, a.Scale.Long, a.Scale.Short, a.MinRatio, a.MaxRatio, a.CatMaxRatio, a.PhotometricDistortion,
		o.LearningRate, schedule, o.WarmUp, o.LayerDecay, o.WeightDecay, o.DropPath, c.Batch/c.Parts, r.Data.tested.Len(), c.Inference.Scale.Long, c.Inference.Scale.Short, how)
}
