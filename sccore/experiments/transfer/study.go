// Package transfer is the experiment of semantic segmentation with fixed features: a linear head or an FCN on the patch features of a frozen encoder.
//
// In go the four datasets of the paper, or synthetic scenes, and the encoders of package encoders. Out come records of mIoU and pixel accuracy, the
// trained heads, Tab. semantic_seg and semantic_seg_acc, and claim C22.
package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"image/color"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/heads"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/encoders"
)

// Name is the experiment's name.
const Name = "transfer"

// Study is the experiment.
var Study = study.Spec[Config, Data]{
	Info: study.Info{
		Name:       Name,
		Title:      "How well do fixed features segment, with a linear head and with an FCN?",
		Reproduces: "Tab. semantic_seg, Tab. semantic_seg_acc; claim C22",
		Labels:     []string{"semantic_seg", "semantic_seg_acc"},
		Data:       "COCOStuff-27, PASCAL VOC, ADE20k, Cityscapes and CamVid, whichever --data has; without it synthetic scenes; encoders from pretrain's runs, or --set weights.dino-s16=FILE",
		Cost: map[study.Profile]string{
			study.Smoke: "seconds",
			study.Quick: "a quarter of an hour on 2 cores, and half an hour per dataset of photographs",
			study.Full:  "per encoder and dataset, 500k crops through ViT-S/16 and eight heads: hours on a GPU, and up to 20 GiB of disk; C22 needs --seeds 3",
		},
	},
	Parts:    []string{"dataset", "row", "head", "seed"},
	Datasets: sources.Datasets,
	Cells:    grid.Cells,
	BySeed:   study.EachSeed,
	Open: func(o study.Options, dataset string, cells []study.Cell[Config]) (Data, error) {
		return open(o, dataset, cells[0].Config, cells[0].Seed)
	},
	Numbers: func(data Data, c study.Cell[Config]) []study.Number {
		return []study.Number{{Row: c.Config.Encoder.Row, Column: column(data.Train.Name, c.Config.Head)}}
	},
	Steps:     func(_ Data, c study.Cell[Config]) int { return c.Config.steps() },
	NewWorker: func(r *run) (study.Worker[Config, Data], error) { return newWorker(r.Backend()), nil },
	Folder: func(data Data, c study.Cell[Config]) string {
		hash := study.Hash([]byte(c.Name() + " " + c.Hash() + " " + data.Identity()))
		return filepath.Join("cells", filepath.Join(c.Path...), fmt.Sprintf("seed%d-%s", c.Seed, hash))
	},
	ProfileConfig: grid.ProfileConfig,
	Common:        grid.Common,
	Tables:        tables,
	Figures:       drawn,
	Random:        encoders.Random,
}

// headTitles are the names of the heads in the table's columns.
var headTitles = map[string]string{heads.Linear: "Linear", heads.FCN: "FCN"}

// column is the table's column for a dataset and a head.
func column(dataset, head string) string { return dataset + "/" + headTitles[head] }

// Config is the configuration of a cell.
type Config struct {
	encoders.Config

	Head  string `json:"head"`  // The segmentation head: linear or fcn. Both run; --only chooses.
	Width int    `json:"width"` // Channels of the FCN, which the paper does not give.

	CropSize int     `json:"train"`    // Side of training crops in pixels.
	TestSize int     `json:"test"`     // Side in pixels that test images are resized to.
	MinScale float64 `json:"min_area"` // The smallest crop, as a share of the image's area.
	Crops    int     `json:"crops"`    // Different crops per image, whose features can be cached; 0 draws a new crop each time.

	Batch             int        `json:"batch"`
	Samples           int        `json:"samples"`    // Crops that a head is trained on.
	LearningRates     [4]float64 `json:"rates"`      // The rate with the highest mIoU on held-out training images counts.
	FinalLearningRate float64    `json:"final_rate"` // Learning rate at the last step.
	Holdout           int        `json:"holdout"`    // Training images held out to choose the learning rate; at most half.

	Images   int     `json:"images"`           // Images per split and seed: drawn, or taken evenly spread from the seed's share of a real dataset, where 0 means all.
	Shares   int     `json:"shares,omitzero"`  // Shares that the images of a real dataset are cut into. Seed 0 has the first, and so on. 1 gives all to every seed.
	Classes  string  `json:"classes,omitzero"` // The classes of a real dataset that count, with commas between them; empty for all. Pixels of others are ignored.
	CacheGiB float64 `json:"cache_gib"`        // Disk space for cached features; what does not fit is computed each time.
}

var grid = encoders.Grid[Config]{
	Table:    "semantic_seg",
	Seeds:    map[study.Profile]int{study.Smoke: 1, study.Full: 1},
	Variants: []string{heads.Linear, heads.FCN},
	Shares:   func(c Config) int { return c.Shares },
	Config:   config,
}

// profileConfig returns the configuration of a profile before --set. The paper equates 100k samples with 1560 iterations and 400k with 6250, which holds
// for batches of 64. With batches of 128, the number of samples counts here.
func profileConfig(profile study.Profile, dataset, head string) Config {
	c := Config{
		Head: head, Width: 256, CropSize: 336, TestSize: 448, MinScale: 0.25,
		Batch: 128, Samples: 100_000, LearningRates: [4]float64{1e-4, 1e-3, 3e-3, 1e-2}, FinalLearningRate: 1e-4, Holdout: 150, CacheGiB: 20,
	}
	if head == heads.FCN {
		c.Samples = 400_000
	}
	if dataset == "cityscapes" {
		c.CropSize, c.TestSize, c.Batch = 896, 1024, 64
	}
	if profile != study.Full {
		c.CropSize, c.TestSize, c.Crops, c.Batch, c.Samples, c.Width = 48, 64, 4, 32, 19200, 16
		c.Images, c.Holdout, c.CacheGiB = 400, 60, 1
		if head == heads.FCN {
			c.Batch, c.Samples = 16, 6400
		}
		if dataset != encoders.Synthetic { // Photographs need more pixels than synthetic scenes.
			c.CropSize, c.TestSize, c.Crops, c.Samples, c.Images, c.Shares = 96, 128, 4, 9600, 0, 5
			if head == heads.FCN {
				c.Samples = 3200
			}
		}
	} else {
		c.Shares = 1
	}
	if profile == study.Smoke {
		c.CropSize, c.TestSize, c.Crops, c.Batch, c.Samples, c.Width, c.Images, c.Holdout = 16, 32, 1, 4, 16, 4, 8, 3
		c.Shares = min(c.Shares, 1)
	}
	return c
}

// config applies --set: "batch=16" is for all runs, "fcn.width=64" and "ade20k.train=256" are for one head or dataset.
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
	return c, c.check(dataset)
}

// check returns an error that names the first value out of range.
func (c Config) check(dataset string) error {
	const most = math.MaxInt32
	if err := cmp.Or(
		settings.Between("batch", c.Batch, 1, 1<<14), settings.Between("crops", c.Crops, 0, most), settings.Between("samples", c.Samples, 1, most), settings.Between("holdout", c.Holdout, 1, most),
		settings.Between("images", c.Images, 0, most), settings.Between("test", c.TestSize, 1, settings.MaxImageSize),
		settings.Between("cache_gib", c.CacheGiB, 0, 1e6), c.crop().Check(),
	); err != nil {
		return err
	}
	if dataset != encoders.Synthetic {
		if err := settings.Between("shares", c.Shares, 1, 1<<20); err != nil {
			return err
		}
	} else {
		if c.Shares != 0 || c.Classes != "" {
			return errors.New("shares and classes: synthetic images are drawn for each seed, with all classes")
		}
		if err := cmp.Or(settings.Between("images", c.Images, 2, most), synthetic.Check("images", c.Images, "size", drawnSize)); err != nil {
			return err
		}
	}
	// Any encoder will do, because the cell's is not open yet: the widest of patches of 16 pixels.
	if err := c.training(encoder.ViT{PatchSize: 1, Dim: 768}, 2).Check(); err != nil {
		return err
	}
	side := max(1, c.CropSize/16)
	what := fmt.Sprintf("batch %d of crops of train %d", c.Batch, c.CropSize)
	if err := settings.Fit(settings.MaxBytes, what, c.Batch, side, side, 768, 4); err != nil || c.Head != heads.FCN {
		return err
	}
	side *= heads.Upsampling
	return settings.Fit(settings.MaxDeviceBytes, fmt.Sprintf("%s through width %d", what, c.Width), c.Batch, side, side, c.Width, 4)
}

func (c Config) crop() evaluation.RandomResizedCrop {
	return evaluation.RandomResizedCrop{Size: c.CropSize, MinScale: c.MinScale}
}

// steps is the number of training steps.
func (c Config) steps() int { return (c.Samples + c.Batch - 1) / c.Batch }

// training is the configuration of the heads' training for a number of classes.
func (c Config) training(vit encoder.ViT, classes int) evaluation.SegmentationConfig {
	return evaluation.SegmentationConfig{
		Head: heads.Segmentation{Kind: c.Head, Classes: classes, Width: c.Width}, Dim: vit.Dim, Grid: c.CropSize / vit.PatchSize,
		Batch: c.Batch, Steps: c.steps(), LearningRates: c.LearningRates[:], FinalLearningRate: c.FinalLearningRate,
	}
}

// tables returns the paper's two tables, and the same two for rows and datasets that the paper does not have.
func tables(results study.Results) []figures.Table {
	var all, ours []figures.Table
	for _, metric := range []struct {
		label, name, detail string
	}{{"semantic_seg", "mIoU", ""}, {"semantic_seg_acc", "pixel accuracy", "accuracy"}} {
		t := encoders.Beside(metric.label, "Semantic segmentation with fixed features: "+metric.name+" at the full size of the annotation.",
			encoders.Values(metric.detail, figures.MustPaper(metric.label).Columns...)...)
		all = append(all, t.Of(results))
		rows := encoders.WithRecords(results, encoders.OurRows(), results.Columns()...)
		columns := encoders.ColumnsOf(results, rows, results.Columns()...)
		if slices.SortFunc(columns, byPlace); len(columns) > 0 {
			t = encoders.Alone(t.Title+" for encoders of our own, which the paper does not have", t.Caption+encoders.BothBegin, rows, encoders.Values(metric.detail, columns...)...)
			t.RowHeads = []figures.RowHead{{Name: "encoder"}}
			ours = append(ours, t.Of(results))
		}
	}
	return append(all, ours...)
}

// byPlace orders columns and datasets as the paper does.
func byPlace(a, b string) int {
	place := func(column string) int {
		dataset, head, _ := strings.Cut(column, "/")
		at := 2 * slices.Index([]string{"COCOStuff-27", "PASCAL VOC", "ADE20k", "Cityscapes", "CamVid", "synthetic scenes"}, dataset)
		if head == "FCN" {
			at++
		}
		return at
	}
	return place(a) - place(b)
}

// Datasets returns the names of the datasets with records, in the paper's order.
func Datasets(results study.Results) (names []string) {
	names = encoders.DatasetsOf(results.Columns())
	slices.SortFunc(names, byPlace)
	return names
}

// Predictions segments n evenly spread test images with the trained heads of a row ("random", "second", "dino-s16") and column, those of the lowest seed.
// It also returns the names of the classes. A row and column without records is an error.
func Predictions(r study.Results, b compute.Backend, data, out, row, column string, n int) ([]figures.Segmented, []string, error) {
	record, c, dataset, folder, err := encoders.Recorded[Config](r, out, Name, row, column)
	if err != nil {
		return nil, nil, err
	}
	if c.Encoder, err = c.Encoder.Locate(out, r.Profile, record.Seed); err != nil {
		return nil, nil, err
	}
	images, err := open(study.Options{Data: data}, dataset, c, record.Seed)
	if err != nil {
		return nil, nil, err
	}
	w := newWorker(b)
	defer w.Close()
	frozen, trainer, err := w.prepare(c, record.Seed, len(images.Test.Classes))
	if err != nil {
		return nil, nil, err
	}
	if _, err := trainer.Resume(filepath.Join(folder, headsFile)); err != nil {
		return nil, nil, err
	}
	best := slices.Index(c.LearningRates[:], record.Details["rate"])
	var which []int
	for _, place := range datasets.Spread(len(images.tested), n) {
		which = append(which, images.tested[place])
	}
	fixed := evaluation.FrozenFeatures{Extractor: frozen, Images: images.Test, Crop: c.crop(), TestSize: c.TestSize}
	predictions := make([]figures.Segmented, len(which))
	var colours color.Palette // Drawn classes have those of every figure.
	if dataset != encoders.Synthetic {
		colours = images.Test.Colours()
	}
	err = trainer.Predict(images.Test, which, c.TestSize/frozen.ViT.PatchSize, fixed.Whole(context.Background(), which),
		func(place int, a *datasets.SegmentedImage, head int, classes []uint8) error {
			if head == best {
				predictions[place] = figures.Segmented{Image: a, Predicted: classes, Colours: colours}
			}
			return nil
		})
	return predictions, images.Test.Classes, err
}

// drawnImages is the number of images in a figure.
const drawnImages = 6

// drawn draws what the heads of encoders make of test images, for each column with records. It needs a backend.
func drawn(results study.Results, from study.FigureSources, all *study.Drawn) {
	encoders.DrawPredictions(results, from, all, "semantic_seg", func(row, column string) ([]figures.Segmented, []string, error) {
		return Predictions(results, from.Backend, from.Data, from.Out, row, column, drawnImages)
	})
}
