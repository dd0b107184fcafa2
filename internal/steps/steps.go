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
func Of(name string, o Options) (Step, error) {
	architecture, scenes, objects, classes, categories := "vit-tiny", encoders.Synthetic, encoders.Synthetic, 0, 0 // As experiments have it.
	if o.Profile == study.Full {
		architecture, scenes, objects, classes, categories = "vit-s16", "ade20k", "coco", 150, 80
	}
	vit, err := encoder.ViTByName(architecture)
	if err != nil {
		return Step{}, err
	}
	switch name {
	case Pretrain:
		return pretraining(o)
	case Detection:
		images := synthetic.Scenes(drawn, 64, 1).Instances()
		c, err := detection.Training(o.Profile, objects, vit, max(categories, len(images.Truth.Categories)), o.Set...)
		return fineTuning(c.Training, c.Detector.ViT, c.FLOPs, err, func(b compute.Backend) (Trainer, error) {
			t, err := finetune.NewDetectionTrainer(b, c)
			if err == nil {
				t.Images = images.Annotated()
			}
			return t, err
		})
	case finetune.UPerNet, finetune.FPN:
		images := synthetic.Scenes(drawn, 64, 1).Segmentation()
		c, err := finetuning.Training(o.Profile, scenes, name, vit, max(classes, len(images.Classes)), o.Set...)
		return fineTuning(c.Training, c.Segmenter.ViT, c.FLOPs, err, func(b compute.Backend) (Trainer, error) {
			t, err := finetune.NewSegmentationTrainer(b, c)
			if err == nil {
				t.Images = images
			}
			return t, err
		})
	}
	return Step{}, fmt.Errorf("--step %s: not one of %s", name, strings.Join(Names, ", "))
}

// fineTuning is a step whose configuration is right unless err says otherwise. forward is the FLOP of an image.
func fineTuning(c finetune.Training, vit encoder.ViT, forward func() float64, err error, compile func(compute.Backend) (Trainer, error)) (Step, error) {
	if err != nil {
		return Step{}, err
	}
	return Step{
		Images: c.Batch / c.Parts, Batch: c.Batch, BF16: vit.ComputeDType.IsHalfPrecision(), FLOPs: 3 * float64(c.Steps*c.Batch) * forward(), New: compile,
	}, nil
}

// drawn is the number of drawn images.
const drawn = 16

// pretraining is the step of the method. In the full profile drawn images have no labels, as photographs.
func pretraining(o Options) (Step, error) {
	c := recipe.ProfileConfig(o.Profile, o.Data != "" || o.Profile == study.Full)
	s := &c.Second
	if err := settings.Apply(s, o.Set...); err != nil {
		return Step{}, err
	}
	if err := settings.Check(*s); err != nil {
		return Step{}, err
	}
	c.Recall, c.Shares, c.Images = recipe.Recall{}, 1, drawn
	data, err := recipe.Open(study.Options{Profile: o.Profile, Data: o.Data}, c, 0)
	if err == nil && o.Data == "" && o.Folder != "" {
		err = readFiles(&data.Train, data.Objects[0].Images, o.Folder)
	}
	if err != nil {
		return Step{}, err
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

// readFiles writes images into a folder, and trains on these files. They are decoded once, as "semcon run --cache" does it.
func readFiles(train *sccore.Data, images *datasets.Images, folder string) error {
	if err := synthetic.WriteFolder(filepath.Join(folder, "images"), images); err != nil {
		return err
	}
	files, err := datasets.OpenImageFolder(filepath.Join(folder, "images"))
	if err != nil {
		return err
	}
	cache, err := datasets.OpenCache(filepath.Join(folder, "cache"), nil)
	if err != nil {
		return err
	}
	files = files.Cached(cache)
	train.Objects, train.Scenes = files, files
	return nil
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
