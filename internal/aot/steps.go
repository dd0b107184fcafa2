package main

import (
	"fmt"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/experiments/detection"
	"github.com/semcon/semcon/sccore/experiments/finetuning"
	"github.com/semcon/semcon/sccore/finetune"
	"github.com/semcon/semcon/sccore/knn"
	"github.com/semcon/semcon/sccore/settings"
)

// step is a training step of a full profile.
type step struct {
	images  int // In one launch of the program: of a batch, or of a part of one.
	pairs   int // Patch pairs; 0 without CoTAP.
	compile func(b compute.Backend) error
}

const pretrain = "pretrain"

// stepNames are the values of --step.
var stepNames = []string{pretrain, "upernet", "fpn", "detection"}

// stepOf returns the step with a name. The settings are those of "semcon run pretrain"; the other steps have batch and bf16 alone.
func stepOf(name string, set []string) (step, error) {
	if name == pretrain {
		return pretraining(set)
	}
	vit, err := encoder.ViTByName("vit-s16")
	if err != nil {
		return step{}, err
	}
	changes := struct {
		Batch int  `json:"batch"` // Images of a part; 0 for the recipe's.
		BF16  bool `json:"bf16"`
	}{}
	if err := settings.Apply(&changes, set...); err != nil {
		return step{}, err
	}
	if changes.BF16 {
		vit.ComputeDType = dtypes.BFloat16
	}
	switch name {
	case "upernet", "fpn":
		c := finetuning.Training(vit, map[string]string{"upernet": finetune.UPerNet, "fpn": finetune.FPN}[name])
		if changes.Batch > 0 {
			c.Batch, c.Parts = changes.Batch, 1
		}
		return step{images: c.Batch / c.Parts, compile: func(b compute.Backend) (err error) { _, err = finetune.NewSegmentationTrainer(b, c); return err }}, nil
	case "detection":
		c := detection.Training(vit)
		if changes.Batch > 0 {
			c.Batch, c.Parts = changes.Batch, 1
		}
		return step{images: c.Batch / c.Parts, compile: func(b compute.Backend) (err error) { _, err = finetune.NewDetectionTrainer(b, c); return err }}, nil
	}
	return step{}, fmt.Errorf("--step %s: not one of %s", name, strings.Join(stepNames, ", "))
}

// pretraining is the paper's step.
func pretraining(set []string) (step, error) {
	config := sccore.Default()
	config.BF16 = true
	if err := settings.Apply(&config, set...); err != nil {
		return step{}, err
	}
	places := config.Views.GlobalCropSize / 16
	return step{images: config.Batch, pairs: config.Batch * places * places * places * places, compile: func(b compute.Backend) error {
		const images, size = 256, 32
		data := sccore.Data{Objects: synthetic.Objects(images, size, 1).Images, Scenes: synthetic.Scenes(images, size, 2).Images,
			Neighbours: &knn.Neighbours{K: 1, Indices: make([]int32, images)}}
		_, err := sccore.NewTrainer(b, data, config)
		return err
	}}, nil
}
