// Package finetuning is the experiment of semantic segmentation with full fine-tuning: UPerNet or a semantic FPN on an encoder that is trained with it.
//
// In go the datasets of the paper, PASCAL VOC and CamVid, or synthetic scenes, and the encoders of package encoders. Out come records of mIoU and pixel
// accuracy, the trained models, and Tab. semantic_seg_ft.
package finetuning

import (
	"cmp"
	"context"
	"fmt"
	"image"
	"math"
	"path/filepath"
	"slices"

	"github.com/dsnet/try"
	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/samber/lo"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/finetune"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/encoders"
)

// Name is the experiment's name.
const Name = "fine-tune"

var grid = encoders.Grid[Config]{
	Name: Name, Table: "semantic_seg_ft", Variants: []string{finetune.UPerNet, finetune.FPN},
}

type run = study.Run[Config, evaluation.Data]

// Study is the experiment.
var Study = encoders.Tuning[Config, evaluation.Data, finetune.SegmentationTraining, *finetune.SegmentationTrainer, finetune.SegmentationStep]{
	Grid: grid,
	Sources: encoders.Sources[evaluation.Data]{Open: func(dir, dataset string) (evaluation.Data, error) {
		return evaluation.Source{Dir: dir, Dataset: dataset}.Segmentation(datasets.Train, datasets.Test)
	}},
	Parts:   []string{"dataset", "row", "head", "seed"},
	Images:  open,
	Columns: func(d evaluation.Data, c Config) []string { return []string{d.Name + "/" + headTitles[c.Head]} },
	Unit:    "crop",
	Amount:  func(c Config) (steps, batch int) { return c.Steps, c.Batch },
	Training: func(c Config, vit encoder.ViT, d evaluation.Data) (finetune.SegmentationTraining, error) {
		config := c.training(vit, len(d.Train.Classes))
		_, err := config.Segmenter.Inference(c.Inference)
		return config, err
	},
	New: finetune.NewSegmentationTrainer,
	Take: func(t *finetune.SegmentationTrainer, r *run, _ encoder.ViT, pretrained *model.Store) (done func(), err error) {
		t.Images, t.Pretrained = r.Data.Train, pretrained
		return func() {}, nil
	},
	Loss:    func(s finetune.SegmentationStep) float64 { return s.Loss },
	Test:    test,
	Tables:  tables,
	Figures: encoders.Predictions(Predictions).Drawn("semantic_seg_ft"),
}.Spec()

// open opens a dataset for a configuration. Synthetic scenes are the same as in the experiment transfer, so that its frozen heads can be compared.
func open(o study.Options, dataset string, c Config, seed int) (d evaluation.Data, err error) {
	defer try.Handle(&err)
	source := evaluation.Source{Dir: o.Data, Dataset: dataset, Seed: seed}
	if dataset == encoders.Synthetic {
		if source.Images, source.Size = c.Images, 64; c.Images < 2 {
			return d, fmt.Errorf("images %d: synthetic scenes need at least 2", c.Images)
		}
	}
	d = try.E1(source.Segmentation(datasets.Train, datasets.Test))
	d.Train, d.Test = d.Train.Pick(datasets.Spread(d.Train.Len(), c.Images)), d.Test.Pick(datasets.Spread(d.Test.Len(), c.Images)) // Records identify the whole dataset.
	return d, nil
}

// headTitles are the names of the heads in the table's columns.
var headTitles = map[string]string{finetune.UPerNet: "UperNet", finetune.FPN: "FPN"} // As the paper writes them.

// Config is the configuration of a cell.
type Config struct {
	encoders.Config

	Head     string `json:"head"`     // The segmentation head: upernet or fpn. Both run; --only chooses.
	Channels int    `json:"channels"` // Width of UPerNet or of the FPN's neck; 0 for the length of a token.

	encoders.Tuned

	// What iBOT does, and other profiles do not: position embeddings are resized once, to the grid of a crop, and trained there, not resized in every step; and an encoder with patches of 8 pixels
	// has a pyramid of its own, of the strides that patches of 16 have.
	IBOT bool `json:"ibot,omitzero"`

	Augmentation finetune.SegmentationTransform `json:"augmentation"`
	Inference    finetune.SegmentationInference `json:"inference"`

	Images int `json:"images" range:"[0,2^20]"` // Images per split: drawn, or taken evenly spread from a real dataset, where 0 means all.
}

// Rules returns an error that names the first settings that do not fit together.
func (c Config) Rules() error {
	// The cell's encoder is not open yet. This one sees any crop as one patch.
	any := encoder.ViT{PatchSize: c.Augmentation.CropSize, Dim: 2, Depth: 1, NumHeads: 1, GridSize: 1, Positions: encoder.DINOPositions}
	return settings.Check(c.training(any, 2))
}

// training is the configuration of the training for an encoder and a number of classes.
func (c Config) training(vit encoder.ViT, classes int) finetune.SegmentationTraining {
	if c.IBOT && vit.GridSize > 0 {
		vit.GridSize = c.Augmentation.CropSize / vit.PatchSize
	}
	segmenter := finetune.Segmenter{
		ViT: c.Precision(vit), Head: c.Head, Classes: classes, Channels: cmp.Or(c.Channels, vit.Dim), Halved: c.IBOT && vit.PatchSize == 8,
	}
	return finetune.SegmentationTraining{Training: c.Training(), Segmenter: segmenter, Transform: c.Augmentation}
}

// Training is the configuration of a profile's training on a dataset of so many classes, of an encoder and a head, [finetune.UPerNet] or [finetune.FPN], with the
// assignments of --set.
func Training(profile study.Profile, dataset, head string, vit encoder.ViT, classes int, set ...string) (finetune.SegmentationTraining, error) {
	c, err := grid.Config(profile, dataset, head, set)
	return c.training(vit, classes), err
}

// test measures mIoU on the test images and writes the model.
func test(t *finetune.SegmentationTrainer, r *run, config finetune.SegmentationTraining, last finetune.SegmentationStep) (_ []study.Number, err error) {
	defer try.Handle(&err)
	c, images := r.Cell.Config, r.Data.Test
	r.Say("evaluating on %d images", images.Len())
	inference := try.E1(config.Segmenter.Inference(c.Inference))
	tested := try.E1(inference.Evaluate(r.Context, images, t.Segment))
	description := finetune.SegmenterDescription{Dataset: r.Data.Name, Classes: images.Classes, Colours: images.ClassColours(), Inference: c.Inference}
	try.E(t.Export(filepath.Join(r.Dir, encoders.Model), description, map[string]string{"cell": r.Cell.Name()}))
	details := map[string]float64{"accuracy": tested.Accuracy, "loss": last.Loss}
	for class, iou := range tested.IoU {
		if !math.IsNaN(iou) {
			details["iou "+images.Classes[class]] = iou
		}
	}
	return []study.Number{{Metric: "mIoU", Unit: "%", Value: tested.MIoU, Images: tested.ByImage, Protocol: protocol(r, config), Details: details}}, nil
}

// protocol says how a number is measured.
func protocol(r *run, config finetune.SegmentationTraining) string {
	c, a, p := r.Cell.Config, r.Cell.Config.Augmentation, r.Cell.Config.Inference
	head := lo.Ternary(c.Head == finetune.FPN, "semantic FPN of %d channels", "UPerNet of %d channels with an auxiliary FCN")
	how := lo.Ternary(p.Mode == finetune.Slide, fmt.Sprintf("in crops of %d px every %d px, whose logits are averaged", p.CropSize, p.Stride), "whole")
	return fmt.Sprintf("%s and "+head+" trained together; %d steps of %d crops of %d px, from images resized into %d×%d px times %g to %g, mirrored half of the time, "+
		"largest class below %g of a crop, photometric distortion %t; %s; loss over all pixels, batch statistics of %d crops; %d test images resized into "+
		"%d×%d px, seen %s, logits resized bilinearly to the annotation's size, ignored pixels (255) left out",
		encoders.Describe(config.Segmenter.ViT), config.Segmenter.Channels, c.Steps, c.Batch, a.CropSize, a.Scale.Long, a.Scale.Short, a.MinRatio, a.MaxRatio, a.CatMaxRatio,
		a.PhotometricDistortion, c.Optimizer.Protocol(), c.Batch/c.Parts, r.Data.Test.Len(), p.Scale.Long, p.Scale.Short, how)
}

// tables returns the paper's table, and the same one for rows and datasets that the paper does not have.
func tables(results study.Results) []figures.Table {
	t := encoders.Beside("semantic_seg_ft", "Semantic segmentation with full fine-tuning: mIoU at the full size of the annotation.")
	beside := t.Of(results)
	all := []figures.Table{beside}
	columns := slices.DeleteFunc(results.Columns(), func(column string) bool { return slices.Contains(beside.Columns, column) })
	rows := append(encoders.WithRecords(results, encoders.OurRows(results, "semantic_seg_ft"), results.Columns()...), encoders.WithRecords(results, t.Rows, columns...)...)
	columns = encoders.ColumnsOf(results, rows, results.Columns()...)
	slices.SortFunc(columns, byPlace)
	if len(columns) > 0 {
		ours := encoders.Alone(t.Title+" for encoders and datasets that the paper does not have", t.Caption+encoders.BothBegin, rows, study.Columns("", columns...)...)
		ours.RowHeads = []figures.RowHead{{Name: "encoder"}}
		all = append(all, ours.Of(results))
	}
	if gains := encoders.Gains(results, "What the initial weights are worth", "mIoU", columns...); len(gains.Rows) > 0 {
		all = append(all, gains)
	}
	return all
}

// byPlace orders columns as the paper does, with its datasets before others.
var byPlace = encoders.ByPlace(
	[]string{"ADE20k", "Cityscapes", "COCOStuff-27", "PASCAL VOC", "CamVid", "synthetic scenes"}, []string{headTitles[finetune.UPerNet], headTitles[finetune.FPN]},
)

// Predictions segments n evenly spread test images with the trained model of the lowest seed of a row ("random", "second", "dino-s16") and column.
// It also returns the names of the classes. A row and column without records is an error.
func Predictions(r study.Results, b compute.Backend, data, out, row, column string, n int) (_ []figures.Segmented, _ []string, err error) {
	defer try.Handle(&err)
	record, c, file, err := encoders.Recorded[Config](r, out, row, column)
	try.E(err)
	images := try.E1(open(study.Options{Data: data}, record.Dataset, c, record.Seed))
	model := try.E1(finetune.OpenSegmentationModel(b, file))
	defer model.Close()
	predictions := lo.Map(datasets.Spread(images.Test.Len(), n), func(place, _ int) figures.Segmented {
		a := try.E1(images.Test.Read(place))
		classes := try.E1(model.Inference.Predict(context.Background(), a, model.Segment))
		return figures.Segmented{Image: a, Predicted: classes, Colours: encoders.Colours(record.Dataset, images.Test)}
	})
	return predictions, images.Test.Classes, nil
}

// Crops draws the first n training crops of a dataset with their labels, as the profile's configuration makes them. Ignored pixels, which include the
// padding, are grey.
func Crops(data, dataset string, profile study.Profile, n int) (_ figures.ImageGrid, err error) {
	defer try.Handle(&err)
	c := grid.Defaults(profile, dataset, finetune.UPerNet)
	d := try.E1(open(study.Options{Data: data}, dataset, c, 0))
	side := c.Augmentation.CropSize
	sheet := figures.ImageGrid{
		Title: fmt.Sprintf("training crops of %d px, %s", side, d.Title()), RowLabels: []string{"crop", "labels"}, Images: make([][]image.Image, 2), Scale: max(1, 168/side),
	}
	for i := range min(n, d.Train.Len()) {
		a := try.E1(d.Train.Read(i))
		crop := c.Augmentation.Apply(a, 0, 0, i)
		picture := datasets.SegmentedImage{Height: side, Width: side, Pixels: crop.Pixels}
		sheet.Images[0] = append(sheet.Images[0], picture.Image())
		sheet.Images[1] = append(sheet.Images[1], figures.ClassMap(crop.Labels, side))
	}
	return sheet, nil
}
