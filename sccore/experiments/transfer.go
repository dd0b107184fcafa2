package experiments

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/evaluation"
)

// Transfer is the name of the experiment that segments with fixed features (Tab. semantic_seg and semantic_seg_acc): a linear head and an FCN on
// a frozen encoder's patch features, on four datasets.
const Transfer = "transfer"

// TransferConfig is what one run of the experiment is made from.
type TransferConfig struct {
	Weights    string `json:"weights"`    // File of the encoder's weights; rows of our own training find theirs.
	Encoder    string `json:"encoder"`    // A name that encoder.ViTByName knows.
	Prototypes int    `json:"prototypes"` // Of the encoder's Object-Aware Filter; 0 for no filter.

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

// transferRow is a row of the table: an encoder.
type transferRow struct {
	key  string // In cell names and before the dot of --set, "dino+ours".
	name string // In the paper's table, or ours.
}

// transferRows are those of the paper, which need a file of weights, and our own: an encoder as it is drawn, and those of the pretraining
// experiment's two stages, each with the seed of the run.
var transferRows = []transferRow{
	{"dino", "DINO"}, {"ibot", "iBOT"}, {"leopart", "Leopart"}, {"mugs", "Mugs"}, {"sere", "SERE"}, {"croc", "CrOC"},
	{"dino+ours", "DINO + Ours"}, {"ibot+ours", "iBOT + Ours"}, {"mugs+ours", "Mugs + Ours"},
	{"random", rowRandom}, {"alignment", rowFirst}, {"method", rowSecond},
}

// own tells whether the row is not one of the paper's.
func (r transferRow) own() bool {
	return r.name == rowRandom || r.name == rowFirst || r.name == rowSecond
}

// transferHeads are the heads with their names in the table's columns.
var transferHeads = []struct{ kind, title string }{{evaluation.LinearHead, "Linear"}, {evaluation.FCNHead, "FCN"}}

// transferConfig returns the configuration of a run before --set. The paper counts 100k samples as 1560 iterations and 400k as 6250, which holds for
// its batches of 64; with 128 it is the samples that count here.
func transferConfig(profile Profile, dataset, head string, row transferRow) TransferConfig {
	c := TransferConfig{
		Encoder: "vit-s16", Head: head, Width: 256, Train: 336, Test: 448, MinArea: 0.25,
		Batch: 128, Samples: 100_000, Rates: [4]float64{1e-4, 1e-3, 3e-3, 1e-2}, FinalRate: 1e-4, Holdout: 500, CacheGiB: 20,
	}
	if strings.HasSuffix(row.name, "+ Ours") {
		c.Prototypes = 64
	}
	if head == evaluation.FCNHead {
		c.Samples = 400_000
	}
	if dataset == "cityscapes" {
		c.Train, c.Test, c.Batch = 896, 1024, 64
	}
	if profile != Full {
		c.Encoder, c.Prototypes = "vit-tiny", 0
		c.Train, c.Test, c.Crops, c.Batch, c.Samples, c.Width = 48, 64, 4, 32, 19200, 16
		c.Images, c.Holdout, c.CacheGiB = 400, 60, 1
		if head == evaluation.FCNHead {
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
	dataset string // A key of transferSources.
	row     transferRow
	seed    int
	config  TransferConfig
}

// transferParts are the parts of a cell's name.
var transferParts = []string{"dataset", "row", "head", "seed"}

// name is how --only addresses a cell, e.g. voc2012/dino+ours/fcn/seed0.
func (c transferCell) name() string {
	return fmt.Sprintf("%s/%s/%s/seed%d", c.dataset, c.row.key, c.config.Head, c.seed)
}

// steps of the cell's training.
func (c transferCell) steps() int { return (c.config.Samples + c.config.Batch - 1) / c.config.Batch }

// transferCells lists the runs of a profile on datasets: all rows with one seed before the next. Rows without weights are left out.
func transferCells(options Options, datasets []string, encoders map[encoderKey]transferEncoder) ([]transferCell, error) {
	seeds := map[Profile]int{Smoke: 1, Quick: 3, Full: 1}[options.Profile]
	if options.Seeds > 0 {
		seeds = options.Seeds
	}
	var cells []transferCell
	for _, dataset := range datasets {
		for seed := range seeds {
			for _, row := range transferRows {
				for _, head := range transferHeads {
					config, err := setTransfer(options, dataset, head.kind, row)
					if err != nil {
						return nil, err
					}
					found, there := encoders[encoderKey{row.key, seed}]
					switch {
					case config.Weights != "" || row.name == rowRandom:
					case !there:
						continue
					default:
						config.Weights, config.Encoder, config.Prototypes = found.file, found.vit.Name, found.vit.Prototypes
					}
					if err := config.check(); err != nil {
						return nil, err
					}
					cells = append(cells, transferCell{dataset, row, seed, config})
				}
			}
		}
	}
	return cells, nil
}

// setTransfer applies --set: "batch=16" is for all runs, "dino.weights=FILE", "fcn.width=64" and "ade20k.train=256" for those of one row, head or
// dataset.
func setTransfer(options Options, dataset, head string, row transferRow) (TransferConfig, error) {
	config := transferConfig(options.Profile, dataset, head, row)
	for _, assignment := range options.Set {
		of, rest, ok := strings.Cut(assignment, ".")
		key, _, _ := strings.Cut(assignment, "=")
		if ok && of != key && len(of) < len(key) {
			known := slices.ContainsFunc(transferRows, func(r transferRow) bool { return r.key == of }) ||
				of == evaluation.LinearHead || of == evaluation.FCNHead || slices.Contains(transferDatasets, of)
			if known && of != dataset && of != head && of != row.key {
				continue
			}
			if known {
				assignment = rest
			}
		}
		if strings.HasPrefix(assignment, "weights=") && (!ok || !strings.HasSuffix(key, ".weights") || row.name == rowRandom) {
			return config, fmt.Errorf("--set %s: weights are a row's, as in --set dino.weights=FILE, and random has none", assignment)
		}
		if err := applySet(&config, assignment); err != nil {
			return config, err
		}
	}
	if config.Head != head {
		return config, fmt.Errorf("--set head=%s: choose heads with --only '*/*/%s/*'", config.Head, config.Head)
	}
	return config, nil
}

// check returns an error that names the first value out of range.
func (c TransferConfig) check() error {
	vit, err := encoder.ViTByName(c.Encoder)
	if err != nil {
		return err
	}
	for _, field := range []struct {
		name         string
		value, least int
	}{{"prototypes", c.Prototypes, 0}, {"crops", c.Crops, 0}, {"samples", c.Samples, 1}, {"holdout", c.Holdout, 1}, {"images", c.Images, 0}, {"test", c.Test, 1}} {
		if field.value < field.least {
			return fmt.Errorf("%s %d is below %d", field.name, field.value, field.least)
		}
	}
	if c.Train%vit.Patch != 0 || c.Test%vit.Patch != 0 {
		return fmt.Errorf("train %d and test %d are not both made of patches of %d", c.Train, c.Test, vit.Patch)
	}
	if !(c.CacheGiB >= 0) {
		return fmt.Errorf("cache_gib %g is negative", c.CacheGiB)
	}
	if err := c.crop().Check(); err != nil {
		return err
	}
	return c.training(vit, 2).Check()
}

func (c TransferConfig) crop() evaluation.Crop {
	return evaluation.Crop{Side: c.Train, MinArea: c.MinArea}
}

// training is what the heads are trained by, for a number of classes.
func (c TransferConfig) training(vit encoder.ViT, classes int) evaluation.SegmentationTraining {
	return evaluation.SegmentationTraining{
		Head: evaluation.SegmentationHead{Kind: c.Head, Classes: classes, Width: c.Width}, Dim: vit.Dim, Grid: c.Train / vit.Patch,
		Batch: c.Batch, Steps: transferCell{config: c}.steps(), Rates: c.Rates[:], FinalRate: c.FinalRate,
	}
}

// encode returns the configuration as it stands in records.
func (c TransferConfig) encode() json.RawMessage {
	encoded, err := json.Marshal(c)
	if err != nil {
		panic(err) // Numbers and text.
	}
	return encoded
}
