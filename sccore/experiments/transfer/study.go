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
	"slices"

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

var grid = encoders.Grid[Config]{
	Name: Name, Table: "semantic_seg", Variants: []string{heads.Linear, heads.FCN}, Shares: func(c Config) int { return c.Shares }, Rules: Config.rules,
}

// Study is the experiment.
var Study = encoders.Tuning[Config, Data, evaluation.SegmentationConfig, *trainer, []float32]{
	Grid: grid,
	Sources: encoders.Sources[Data]{Open: func(dir, dataset string) (d Data, err error) {
		d.Data, err = evaluation.Source{Dir: dir, Dataset: dataset}.Segmentation(datasets.Train, datasets.Test)
		return d, err
	}},
	Parts:   []string{"dataset", "row", "head", "seed"},
	Images:  open,
	Columns: func(d Data, c Config) []string { return []string{column(d.Name, c.Head)} },
	Unit:    "crop",
	Amount:  func(c Config) (steps, batch int) { return c.steps(), c.Batch },
	Training: func(c Config, vit encoder.ViT, d Data) (evaluation.SegmentationConfig, error) {
		if c.CropSize%vit.PatchSize != 0 || c.TestSize%vit.PatchSize != 0 {
			err := fmt.Errorf("train %d and test %d are not both made of patches of %d, which %s sees", c.CropSize, c.TestSize, vit.PatchSize, vit.Name)
			return evaluation.SegmentationConfig{}, err
		}
		return c.training(vit, len(d.Train.Classes)), nil
	},
	New:     evaluation.NewSegmentationTrainer,
	KeepAll: true,
	Take:    take,
	Loss: func(losses []float32) float64 {
		return float64(slices.Min(slices.DeleteFunc(slices.Clone(losses), func(loss float32) bool { return loss-loss != 0 }))) // Without NaN and infinities.
	},
	Final:   headsFile,
	Test:    test,
	Tables:  tables,
	Figures: encoders.Predictions(Predictions).Drawn("semantic_seg"),
}.Spec()

// headTitles are the names of the heads in the table's columns.
var headTitles = map[string]string{heads.Linear: "Linear", heads.FCN: "FCN"}

// column is the table's column for a dataset and a head.
func column(dataset, head string) string { return dataset + "/" + headTitles[head] }

// Config is the configuration of a cell.
type Config struct {
	encoders.Config

	Head  string `json:"head"`  // The segmentation head: linear or fcn. Both run; --only chooses.
	Width int    `json:"width"` // Channels of the FCN, which the paper does not give.

	CropSize int     `json:"train" range:"[1,2048]"` // Side of training crops in pixels.
	TestSize int     `json:"test" range:"[1,2048]"`  // Side in pixels that test images are resized to.
	MinScale float64 `json:"min_area" range:"(0,1]"` // The smallest crop, as a share of the image's area.
	Crops    int     `json:"crops" range:"[0,2^31)"` // Different crops per image, whose features are computed once; 0 draws a new crop each time.

	Batch             int        `json:"batch" range:"[1,2^14]"`
	Samples           int        `json:"samples" range:"[1,2^31)"`   // Crops that a head is trained on.
	LearningRates     [4]float64 `json:"rates" range:"(0,1e4]"`      // The rate with the highest mIoU on held-out training images counts.
	FinalLearningRate float64    `json:"final_rate" range:"(0,1e4]"` // Learning rate at the last step.
	Holdout           int        `json:"holdout" range:"[1,2^31)"`   // Training images held out to choose the learning rate; at most half.

	Images   int     `json:"images" range:"[0,2^31)"`          // Images per split and seed: drawn, or taken evenly spread from the seed's share of a real dataset, where 0 means all.
	Shares   int     `json:"shares,omitzero" range:"[0,2^20]"` // Shares that the images of a real dataset are cut into. Seed 0 has the first, and so on. 1 gives all to every seed.
	Classes  string  `json:"classes,omitzero"`                 // The classes of a real dataset that count, with commas between them; empty for all. Pixels of others are ignored.
	CacheGiB float64 `json:"cache_gib" range:"[0,1e6]"`        // Memory for the features of crops; what does not fit is computed each time.
}

// rules returns an error for what a dataset cannot have, or what does not fit in memory.
func (c Config) rules(dataset string) error {
	if dataset != encoders.Synthetic {
		if err := settings.Between("shares", c.Shares, 1, 1<<20); err != nil {
			return err
		}
	} else {
		if c.Shares != 0 || c.Classes != "" {
			return errors.New("shares and classes: synthetic images are drawn for each seed, with all classes")
		}
		if err := cmp.Or(settings.Between("images", c.Images, 2, math.MaxInt32), synthetic.Check("images", c.Images, "size", drawnSize)); err != nil {
			return err
		}
	}
	// Any encoder will do, because the cell's is not open yet: the widest of patches of 16 pixels.
	if err := settings.Check(c.training(encoder.ViT{PatchSize: 1, Dim: 768}, 2).Head); err != nil {
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
		rows := encoders.WithRecords(results, encoders.OurRows(results, "semantic_seg"), results.Columns()...)
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
var byPlace = encoders.ByPlace(
	[]string{"COCOStuff-27", "PASCAL VOC", "ADE20k", "Cityscapes", "CamVid", "synthetic scenes"}, []string{headTitles[heads.Linear], headTitles[heads.FCN]},
)

// Datasets returns the names of the datasets with records, in the paper's order.
func Datasets(results study.Results) (names []string) {
	names = encoders.DatasetsOf(results.Columns())
	slices.SortFunc(names, byPlace)
	return names
}

// Predictions segments n evenly spread test images with the trained heads of the lowest seed of a row ("random", "second", "dino-s16") and column.
// It also returns the names of the classes. A row and column without records is an error.
func Predictions(r study.Results, b compute.Backend, data, out, row, column string, n int) ([]figures.Segmented, []string, error) {
	record, c, dataset, file, err := encoders.Recorded[Config](r, out, Name, row, column)
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
	encoder, err := c.Encoder.Open(b, record.Seed)
	if err != nil {
		return nil, nil, err
	}
	defer encoder.Close()
	trainer, err := evaluation.NewSegmentationTrainer(b, c.training(encoder.ViT, len(images.Test.Classes)))
	if err != nil {
		return nil, nil, err
	}
	defer trainer.Close()
	if err := trainer.Begin(uint64(record.Seed)); err != nil {
		return nil, nil, err
	}
	if _, err := trainer.Resume(file); err != nil {
		return nil, nil, err
	}
	best := slices.Index(c.LearningRates[:], record.Details["rate"])
	var which []int
	for _, place := range datasets.Spread(len(images.tested), n) {
		which = append(which, images.tested[place])
	}
	trainer.Frozen = evaluation.FrozenFeatures{Extractor: encoder.FeatureExtractor, Images: images.Test, Crop: c.crop(), TestSize: c.TestSize}
	predictions := make([]figures.Segmented, len(which))
	var colours color.Palette // Nil: drawn classes have the colours of every figure.
	if dataset != encoders.Synthetic {
		colours = images.Test.Colours()
	}
	err = trainer.Predict(which, trainer.Frozen.Whole(context.Background(), which),
		func(place int, a *datasets.SegmentedImage, head int, classes []uint8) error {
			if head == best {
				predictions[place] = figures.Segmented{Image: a, Predicted: classes, Colours: colours}
			}
			return nil
		})
	return predictions, images.Test.Classes, err
}
