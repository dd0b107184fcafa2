// Package steps has the training steps that are measured, by "semcon bench", or compiled for a GPU that is not there, by internal/aot: the tasks that experiments
// train, as their profiles have them.
package steps

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/dsnet/try"
	"github.com/gomlx/compute"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/experiments/detection"
	"github.com/semcon/semcon/sccore/experiments/finetuning"
	"github.com/semcon/semcon/sccore/finetune"
	"github.com/semcon/semcon/sccore/knn"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/encoders"
	"github.com/semcon/semcon/sccore/train"
)

// Pretrain and Detection name the second stage of the experiment pretrain, and Cascade Mask R-CNN. Fine-tuning has the names of its heads.
const Pretrain, Detection = "pretrain", "detection"

// Names lists the steps.
var Names = []string{Pretrain, finetune.UPerNet, finetune.FPN, Detection}

// Options say what a step trains on.
type Options struct {
	Profile study.Profile
	Data    string   // The folder of ImageNet and COCO to pretrain on; empty for drawn images.
	Set     []string // KEY=VALUE of the stage's configuration, or of the experiment's.
	Folder  string   // An empty folder for files of drawn images to pretrain on, and what is decoded of them; without it they stay in memory.
}

// Step is a training step of a profile.
type Step struct {
	Images int     // In one launch of the program: of a batch, or of a part of one.
	Batch  int     // Images, or crops, of a step.
	BF16   bool    // The encoder computes in bfloat16.
	Pairs  int     // Patch pairs; 0 without CoTAP.
	FLOPs  float64 // Of the training of the profile, in products, counted from the configuration.
	New    func(b compute.Backend) (Trainer, error)
}

// Trainer is a compiled step, whatever it reports; see [train.Trainer].
type Trainer interface {
	Begin(seed uint64) error
	Take(ctx context.Context) error
	Read(ctx context.Context, most int, within time.Duration) (parts int, err error)
	Usage() train.Usage
	Workload() train.Workload
	Products() float64
	Close()
}

// Of returns the step with a name. The error names a setting, or says which data are missing. In the full profile of fine-tuning, drawn images count as images
// of ADE20k and COCO.
func Of(name string, o Options) (_ Step, err error) {
	defer try.Handle(&err)
	architecture, scenes, objects, classes, categories := "vit-tiny", encoders.Synthetic, encoders.Synthetic, 0, 0 // As experiments have it.
	if o.Profile == study.Full {
		architecture, scenes, objects, classes, categories = "vit-s16", "ade20k", "coco", 150, 80
	}
	vit := try.E1(encoder.ViTByName(architecture))
	switch name {
	case Pretrain:
		return pretraining(o)
	case Detection:
		images := synthetic.Scenes(drawn, 64, 1).Instances()
		c := try.E1(detection.Training(o.Profile, objects, vit, max(categories, len(images.Truth.Categories)), o.Set...))
		return fineTuning(c.Training, c.Detector.ViT, c.FLOPs(), func(b compute.Backend) (_ Trainer, err error) {
			defer try.Handle(&err)
			t := try.E1(finetune.NewDetectionTrainer(b, c))
			t.Images = images.Annotated()
			return t, nil
		}), nil
	case finetune.UPerNet, finetune.FPN:
		images := synthetic.Scenes(drawn, 64, 1).Segmentation()
		c := try.E1(finetuning.Training(o.Profile, scenes, name, vit, max(classes, len(images.Classes)), o.Set...))
		return fineTuning(c.Training, c.Segmenter.ViT, c.FLOPs(), func(b compute.Backend) (_ Trainer, err error) {
			defer try.Handle(&err)
			t := try.E1(finetune.NewSegmentationTrainer(b, c))
			t.Images = images
			return t, nil
		}), nil
	}
	return Step{}, fmt.Errorf("--step %s: not one of %s", name, strings.Join(Names, ", "))
}

// fineTuning is a step of a configuration. forward is the FLOP of an image.
func fineTuning(c finetune.Training, vit encoder.ViT, forward float64, compile func(compute.Backend) (Trainer, error)) Step {
	return Step{Images: c.Batch / c.Parts, Batch: c.Batch, BF16: vit.ComputeDType.IsHalfPrecision(), FLOPs: 3 * float64(c.Steps*c.Batch) * forward, New: compile}
}

// drawn is the number of drawn images.
const drawn = 16

// pretraining is the step of the method. In the full profile drawn images have no labels, as photographs.
func pretraining(o Options) (_ Step, err error) {
	defer try.Handle(&err)
	c := recipe.ProfileConfig(o.Profile, o.Data != "" || o.Profile == study.Full)
	s := &c.Second
	try.E(settings.Apply(s, o.Set...))
	try.E(settings.Check(*s))
	c.Recall, c.Shares, c.Images = recipe.Recall{}, 1, drawn
	data := try.E1(recipe.Open(study.Options{Profile: o.Profile, Data: o.Data}, c, 0))
	if o.Data == "" && o.Folder != "" { // Files that are decoded once, as "semcon run --cache" does it.
		folder := filepath.Join(o.Folder, "images")
		try.E(synthetic.WriteFolder(folder, data.Objects[0].Images))
		files := try.E1(datasets.OpenImageFolder(folder)).Cached(try.E1(datasets.OpenCache(filepath.Join(o.Folder, "cache"), nil)))
		data.Train.Objects, data.Train.Scenes = files, files
	}
	if o.Profile == study.Full {
		data.Train.Labels = nil
	}
	data.Train.Neighbours = &knn.Neighbours{K: 1, Indices: make([]int32, data.Train.Objects.Len())}
	places, launch := s.Views.GlobalCropSize/16, s.Batch/s.AccumulationSteps
	return Step{
		Images: launch, Batch: s.Batch, BF16: s.BF16, Pairs: launch * places * places * places * places, FLOPs: recipe.Stage{Config: *s}.FLOPs(),
		New: func(b compute.Backend) (Trainer, error) { return sccore.NewTrainer(b, data.Train, *s) },
	}, nil
}

// FiguresFile has what internal/aot says of steps, in a checkout.
const FiguresFile = "internal/steps/figures.json"

//go:embed figures.json
var figures []byte

// Roofs are the most images/s of a step of the full profile on an H200 and on an H100, by the launches of its program; see internal/aot. They are 0 if it has
// compiled no such step.
func Roofs(name string, s Step) (h200, h100 float64) {
	var all []struct {
		Step   string  `json:"step"`
		Launch int     `json:"images_of_a_launch"`
		BF16   bool    `json:"bf16"`
		H200   float64 `json:"roof_ms"`
		H100   float64 `json:"roof_h100_ms"`
	}
	if err := json.Unmarshal(figures, &all); err != nil {
		panic(err) // The file is part of the program.
	}
	for _, f := range all {
		if f.Step == name && f.Launch == s.Images && f.BF16 == s.BF16 {
			h200, h100 = float64(s.Images)/f.H200*1e3, float64(s.Images)/f.H100*1e3
		}
	}
	return h200, h100
}
