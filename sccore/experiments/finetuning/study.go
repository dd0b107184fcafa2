package finetuning

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/finetune"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/encoders"
)

// Name is the experiment's name.
const Name = "fine-tune"

// Study is the experiment.
var Study = study.Spec[Config, Data]{
	Info: study.Info{
		Name:       Name,
		Title:      "How well do encoders segment that are trained together with UPerNet or a semantic FPN?",
		Reproduces: "Tab. semantic_seg_ft",
		Labels:     []string{"semantic_seg_ft"},
		Data: "ADE20k, Cityscapes, COCOStuff-27, PASCAL VOC and CamVid, whichever --data has; without it synthetic scenes; encoders from pretrain's runs, or " +
			"--set weights.dino-s16=FILE",
		Cost: map[study.Profile]string{
			study.Smoke: "a minute",
			study.Quick: "20 minutes on 2 cores",
			study.Full:  "per encoder and dataset, 160k steps of 16 crops of 512² with UPerNet and 80k with the FPN: a day on a GPU",
		},
	},
	Parts:    []string{"dataset", "row", "head", "seed"},
	Datasets: sources.Datasets,
	Cells:    grid.Cells,
	BySeed:   encoders.Drawn,
	Open: func(o study.Options, dataset string, cells []study.Cell[Config]) (Data, error) {
		return open(o.Data, dataset, cells[0].Config, cells[0].Seed)
	},
	Numbers: func(data Data, c study.Cell[Config]) []study.Number {
		return []study.Number{{Row: c.Config.Encoder.Row, Column: column(data.train.Name, c.Config.Head)}}
	},
	Steps:     func(_ Data, c study.Cell[Config]) int { return c.Config.Steps },
	NewWorker: func(r *run) (study.Worker[Config, Data], error) { return newWorker(r.Backend()), nil },
	Folder: func(data Data, c study.Cell[Config]) string {
		hash := study.Hash([]byte(c.Name() + " " + c.Hash() + " " + data.Identity()))
		return filepath.Join("cells", filepath.Join(c.Path...), fmt.Sprintf("seed%d-%s", c.Seed, hash))
	},
	ProfileConfig: grid.ProfileConfig,
	Common:        grid.Common,
	Tables:        tables,
	Figures:       drawn,
}

// headTitles are the names of the heads in the table's columns.
var headTitles = map[string]string{finetune.UPerNet: "UperNet", finetune.FPN: "FPN"} // As the paper writes them.

// column is the table's column for a dataset and a head.
func column(dataset, head string) string { return dataset + "/" + headTitles[head] }

// Config is the configuration of a cell.
type Config struct {
	encoders.Config

	Head     string `json:"head"`     // The segmentation head: upernet or fpn. Both run; --only chooses.
	Channels int    `json:"channels"` // Width of UPerNet or of the FPN's neck; 0 for the length of a token.

	BF16 bool `json:"bf16,omitempty"` // Compute the encoder in bfloat16, with float32 weights.

	Optimizer finetune.Optimizer `json:"optimizer"`
	Batch     int                `json:"batch"`
	Parts     int                `json:"parts"` // Parts that a batch is computed in, one after the other.
	Steps     int                `json:"steps"`

	Augmentation finetune.SegmentationTransform `json:"augmentation"`
	Inference    finetune.SegmentationInference `json:"inference"`

	Images int `json:"images"` // Images per split: drawn, or taken evenly spread from a real dataset, where 0 means all.
}

var grid = encoders.Grid[Config]{
	Table:    "semantic_seg_ft",
	Seeds:    map[study.Profile]int{study.Smoke: 1, study.Full: 1},
	Variants: []string{finetune.UPerNet, finetune.FPN},
	Config:   config,
}

// profileConfig returns the configuration of a profile before --set. The full profile is iBOT's recipe of UPerNet and XCiT's of semantic FPN, for a
// ViT-S/16 on ADE20k; the paper cites the first and gives no settings. Both test on images whose shorter side is 512 pixels, 1024 for Cityscapes.
func profileConfig(profile study.Profile, dataset, head string) Config {
	c := Config{
		Head: head, Batch: 16, Parts: 1, Augmentation: finetune.DefaultSegmentationTransform(), Inference: finetune.DefaultSegmentationInference(),
		Optimizer: finetune.Optimizer{
			LearningRate: 3e-5, LayerDecay: 0.9, WeightDecay: 0.05, WarmUp: 1500, WarmUpRatio: 1e-6, Power: 1, Milestones: [2]float64{1, 1}, DropPath: 0.1,
		},
		Steps: 160_000,
	}
	if head == finetune.FPN {
		c.Channels, c.Steps = 256, 80_000
		c.Optimizer.LearningRate, c.Optimizer.LayerDecay, c.Optimizer.WeightDecay = 6e-5, 1, 0.01
		c.Inference = finetune.SegmentationInference{Scale: c.Inference.Scale, Mode: finetune.Whole, Divisor: 32}
	}
	if dataset == "cityscapes" {
		c.Augmentation.Scale, c.Inference.Scale = finetune.Scale{Long: 2048, Short: 1024}, finetune.Scale{Long: 2048, Short: 1024}
	}
	if profile != study.Full {
		side, crop := 64, 64
		if dataset != encoders.Synthetic { // Photographs need more pixels than synthetic scenes.
			side, crop = 128, 96
		}
		scale := finetune.Scale{Long: 4 * side, Short: side}
		c.Channels, c.Batch, c.Steps, c.Images = 32, 8, 300, 400
		c.Augmentation.Scale, c.Augmentation.CropSize = scale, crop
		c.Inference.Scale, c.Inference.CropSize, c.Inference.Stride = scale, crop, crop*2/3
		c.Optimizer.LearningRate, c.Optimizer.LayerDecay, c.Optimizer.WarmUp = 1e-3, 0.9, 30
		if head == finetune.FPN {
			c.Inference = finetune.SegmentationInference{Scale: scale, Mode: finetune.Whole, Divisor: 8}
		}
	}
	if profile == study.Smoke {
		c.Channels, c.Batch, c.Steps, c.Images = 8, 2, 4, 8
		c.Augmentation.CropSize, c.Augmentation.Scale = 32, finetune.Scale{Long: 128, Short: 32}
		c.Inference.Scale = c.Augmentation.Scale
		if head == finetune.UPerNet {
			c.Inference.CropSize, c.Inference.Stride = 32, 24
		}
		c.Optimizer.WarmUp = 1
	}
	return c
}

// config applies --set: "batch=4" is for all runs, "fpn.steps=100" and "ade20k.batch=8" are for one head or dataset.
func config(profile study.Profile, dataset, head string, set []string) (Config, error) {
	c := profileConfig(profile, dataset, head)
	for _, assignment := range set {
		prefix, rest, _ := strings.Cut(assignment, ".")
		if headTitles[prefix] != "" || prefix == encoders.Synthetic || slices.Contains(sources.Names, prefix) {
			if prefix != dataset && prefix != head {
				continue
			}
			assignment = rest
		}
		if err := settings.Apply(&c, assignment); err != nil {
			return c, err
		}
	}
	if c.Head != head {
		return c, fmt.Errorf("--set head=%s: choose heads with --only '*/*/%s/*'", c.Head, c.Head)
	}
	return c, c.check()
}

// check returns an error that names the first value out of range.
func (c Config) check() error {
	if c.Images < 0 || c.Images > 1<<20 {
		return fmt.Errorf("images %d is not between 0 and %d", c.Images, 1<<20)
	}
	if err := c.Inference.Check(); err != nil {
		return fmt.Errorf("inference.%w", err)
	}
	if err := c.Augmentation.Check(); err != nil {
		return fmt.Errorf("augmentation.%w", err)
	}
	// The cell's encoder is not open yet. This one sees any crop as one patch.
	any := encoder.ViT{PatchSize: c.Augmentation.CropSize, Dim: 2, Depth: 1, NumHeads: 1, GridSize: 1, Positions: encoder.DINOPositions}
	return c.training(any, 2).Check()
}

// training is the configuration of the training for an encoder and a number of classes.
func (c Config) training(vit encoder.ViT, classes int) finetune.SegmentationTraining {
	colours := datasets.DefaultPreprocessing()
	if c.BF16 {
		vit.ComputeDType = dtypes.BFloat16
	}
	return finetune.SegmentationTraining{
		Segmenter: finetune.Segmenter{ViT: vit, Head: c.Head, Classes: classes, Channels: cmp.Or(c.Channels, vit.Dim)},
		CropSize:  c.Augmentation.CropSize,
		Training:  finetune.Training{Optimizer: c.Optimizer, Batch: c.Batch, Parts: c.Parts, Steps: c.Steps, Mean: colours.Mean, Std: colours.Std},
	}
}

// Training is the configuration of the full profile's training on ADE20k for an encoder and a head, [finetune.UPerNet] or [finetune.FPN].
func Training(vit encoder.ViT, head string) finetune.SegmentationTraining {
	return profileConfig(study.Full, "ade20k", head).training(vit, 150)
}
