package transfer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/heads"
)

// Transfer is the name of the experiment that segments with fixed features (Tab. semantic_seg and semantic_seg_acc): a linear head and an FCN on
// a frozen encoder's patch features, on four datasets.
const Transfer = "transfer"

// TransferConfig is what one run of the experiment is made from.
type TransferConfig struct {
	Encoder frozenEncoder `json:"encoder"`

	Head  string `json:"head"`
	Width int    `json:"width"` // Channels of the FCN, which the paper does not name.

	Train   int     `json:"train"`    // Side of training crops in pixels.
	Test    int     `json:"test"`     // Side in pixels that test images are resized to.
	MinArea float64 `json:"min_area"` // Of a crop, as a share of its image's.
	Crops   int     `json:"crops"`    // Different crops of an image, which allows to keep their features; 0 draws a new one each time.

	Batch     int        `json:"batch"`
	Samples   int        `json:"samples"` // Crops that a head is trained on.
	Rates     [4]float64 `json:"rates"`   // Of which the best is taken, by mIoU on held-out training images.
	FinalRate float64    `json:"final_rate"`
	Holdout   int        `json:"holdout"` // Training images held out to choose the rate on; at most half.

	Images   int     `json:"images"`    // Of each split that are taken, evenly spread; 0 for all. Synthetic ones are drawn.
	CacheGiB float64 `json:"cache_gib"` // What files of features may take on disk; beyond it they are computed anew.
}

// transferHeads are the heads with their names in the table's columns.
var transferHeads = []struct{ kind, title string }{{heads.Linear, "Linear"}, {heads.FCN, "FCN"}}

// transferConfig returns the configuration of a run before --set. The paper counts 100k samples as 1560 iterations and 400k as 6250, which holds for
// its batches of 64; with 128 it is the samples that count here.
func transferConfig(profile Profile, dataset, head string) TransferConfig {
	c := TransferConfig{
		Head: head, Width: 256, Train: 336, Test: 448, MinArea: 0.25,
		Batch: 128, Samples: 100_000, Rates: [4]float64{1e-4, 1e-3, 3e-3, 1e-2}, FinalRate: 1e-4, Holdout: 150, CacheGiB: 20,
	}
	if head == heads.FCN {
		c.Samples = 400_000
	}
	if dataset == "cityscapes" {
		c.Train, c.Test, c.Batch = 896, 1024, 64
	}
	if profile != Full {
		c.Train, c.Test, c.Crops, c.Batch, c.Samples, c.Width = 48, 64, 4, 32, 19200, 16
		c.Images, c.Holdout, c.CacheGiB = 400, 60, 1
		if head == heads.FCN {
			c.Batch, c.Samples = 16, 6400
		}
		if dataset != "synthetic" { // Photographs show more than scenes of 64 pixels.
			c.Train, c.Test, c.Crops, c.Batch, c.Samples, c.Images = 96, 128, 2, 8, 800, 100
		}
	}
	if profile == Smoke {
		c.Train, c.Test, c.Crops, c.Batch, c.Samples, c.Width, c.Images, c.Holdout = 16, 32, 1, 4, 16, 4, 8, 3
	}
	return c
}

// transferCell is one run: a head on an encoder and a dataset.
type transferCell struct {
	dataset string // A key of transferSources, or "synthetic".
	seed    int
	config  TransferConfig
}

// transferParts are the parts of a cell's name.
var transferParts = []string{"dataset", "row", "head", "seed"}

// name is how --only addresses a cell, e.g. voc2012/dino+ours-s16/fcn/seed0.
func (c transferCell) name() string {
	return fmt.Sprintf("%s/%s/%s/seed%d", c.dataset, c.config.Encoder.Row, c.config.Head, c.seed)
}

// key identifies what a record on images of an identity measures.
func (c transferCell) key(identity string) string {
	return recordKey(c.name(), c.config.hash(), identity)
}

// steps of the cell's training.
func (c transferCell) steps() int { return (c.config.Samples + c.config.Batch - 1) / c.config.Batch }

// transferCells lists the runs of a profile on datasets: all rows with one seed before the next.
func transferCells(options Options, datasets []string) ([]transferCell, error) {
	seeds := map[Profile]int{Smoke: 1, Quick: 3, Full: 1}[options.Profile]
	encoders, assignments, err := frozenCells(options, "semantic_seg", randomArchitecture(options.Profile), seeds)
	if err != nil {
		return nil, err
	}
	var cells []transferCell
	for _, dataset := range datasets {
		configs := map[string]TransferConfig{}
		for _, head := range transferHeads {
			config, err := setTransfer(options.Profile, assignments, dataset, head.kind)
			if err == nil {
				err = config.check()
			}
			if err != nil {
				return nil, err
			}
			configs[head.kind] = config
		}
		for _, e := range encoders {
			for _, head := range transferHeads {
				c := transferCell{dataset, e.seed, configs[head.kind]}
				c.config.Encoder = e.frozenEncoder
				cells = append(cells, c)
			}
		}
	}
	return cells, nil
}

// setTransfer applies --set: "batch=16" is for all runs, "fcn.width=64" and "ade20k.train=256" for those of one head or dataset.
func setTransfer(profile Profile, assignments []string, dataset, head string) (TransferConfig, error) {
	config := transferConfig(profile, dataset, head)
	for _, assignment := range assignments {
		of, rest, _ := strings.Cut(assignment, ".")
		if of == heads.Linear || of == heads.FCN || slices.Contains(transferDatasets, of) {
			if of != dataset && of != head {
				continue
			}
			assignment = rest
		}
		if err := applySet(&config, assignment); err != nil {
			return config, err
		}
	}
	switch {
	case config.Head != head:
		return config, fmt.Errorf("--set head=%s: choose heads with --only '*/*/%s/*'", config.Head, config.Head)
	case config.Encoder != (frozenEncoder{}):
		return config, errGivenEncoder
	}
	return config, nil
}

// check returns an error that names the first value out of range.
func (c TransferConfig) check() error {
	for _, field := range []struct {
		name         string
		value, least int
	}{{"crops", c.Crops, 0}, {"samples", c.Samples, 1}, {"holdout", c.Holdout, 1}, {"images", c.Images, 0}, {"test", c.Test, 1}} {
		if field.value < field.least {
			return fmt.Errorf("%s %d is below %d", field.name, field.value, field.least)
		}
	}
	if !(c.CacheGiB >= 0) {
		return fmt.Errorf("cache_gib %g is negative", c.CacheGiB)
	}
	if err := c.crop().Check(); err != nil {
		return err
	}
	return c.training(encoder.ViT{Patch: 1, Dim: 1}, 2).Check() // Of any encoder: the cell's is not open yet.
}

// checkPatches returns an error where images are not made of an encoder's patches.
func (c TransferConfig) checkPatches(vit encoder.ViT) error {
	if c.Train%vit.Patch != 0 || c.Test%vit.Patch != 0 {
		return BadOption{fmt.Errorf("train %d and test %d are not both made of patches of %d, which %s sees", c.Train, c.Test, vit.Patch, vit.Name)}
	}
	return nil
}

func (c TransferConfig) crop() evaluation.Crop {
	return evaluation.Crop{Side: c.Train, MinArea: c.MinArea}
}

// training is what the heads are trained by, for a number of classes.
func (c TransferConfig) training(vit encoder.ViT, classes int) evaluation.SegmentationTraining {
	return evaluation.SegmentationTraining{
		Head: heads.Segmentation{Kind: c.Head, Classes: classes, Width: c.Width}, Dim: vit.Dim, Grid: c.Train / vit.Patch,
		Batch: c.Batch, Steps: transferCell{config: c}.steps(), Rates: c.Rates[:], FinalRate: c.FinalRate,
	}
}

// hash names the configuration.
func (c TransferConfig) hash() string {
	c.Encoder = c.Encoder.elsewhere()
	return hashOf(configJSON(c))
}
