package detection

import (
	"context"
	"fmt"
	"image"
	"slices"
	"strings"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/finetune"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/encoders"
)

// What pictures show.
const (
	pictureSide   = 160 // Least length in pixels of the longer side of an image; small images are enlarged.
	leastDrawn    = 0.3 // Least score of a detection.
	mostProposals = 25
	drawnImages   = 5 // In a figure.
)

// enlargement is the factor by which an image is enlarged.
func enlargement(height, width int) int { return max(1, pictureSide/max(height, width)) }

// TrainingImages draws the first n training images of a dataset with their boxes and masks, as the profile's configuration makes them.
func TrainingImages(data, dataset string, profile study.Profile, n int) (figures.ImageGrid, error) {
	c := profileConfig(profile, dataset)
	d, err := open(study.Options{Data: data}, dataset, c, 0)
	if err != nil {
		return figures.ImageGrid{}, err
	}
	sheet := figures.ImageGrid{Title: "training images, " + d.Title(), Images: make([][]image.Image, 1), Scale: 1}
	c.Batch, c.Parts = 1, 1
	for batch, err := range c.training(encoder.ViT{PatchSize: 8}, 0).Batches(context.Background(), d.trained, 0, 0) {
		if err != nil {
			return sheet, err
		}
		picture := datasets.SegmentedImage{Height: batch.Canvas.Height, Width: batch.Canvas.Width, Pixels: batch.Made[0].Pixels}
		objects, err := batch.Made[0].Drawn(batch.Canvas)
		if err != nil {
			return sheet, err
		}
		var drawn []figures.Object
		for _, o := range objects {
			drawn = append(drawn, figures.Object{Box: o.Box, Mask: o.Mask, Class: o.Class})
		}
		sheet.Images[0] = append(sheet.Images[0], figures.DrawObjects(picture.Image(), drawn, enlargement(picture.Height, picture.Width)))
		if len(sheet.Images[0]) == min(n, d.trained.Len()) {
			return sheet, nil
		}
	}
	return sheet, nil
}

// Stages draws n evenly spread test images with the trained model of the lowest seed of a row ("random", "second", "ibot-s16") and a dataset: the truth; the
// best proposals; what the first and the second stage make of them; and the detections with scores above 0.3. A row and dataset without records is an error.
func Stages(r study.Results, b compute.Backend, data, out, row, dataset string, n int) (figures.ImageGrid, error) {
	sheet := figures.ImageGrid{RowLabels: []string{"truth", "proposals", "after stage 1", "after stage 2", "detections"}, Images: make([][]image.Image, 5), Scale: 1}
	record, c, key, file, err := encoders.Recorded[Config](r, out, Name, row, columns(dataset)[0])
	if err != nil {
		return sheet, err
	}
	d, err := open(study.Options{Data: data}, key, c, record.Seed)
	if err != nil {
		return sheet, err
	}
	model, err := finetune.OpenDetectionModel(b, file)
	if err != nil {
		return sheet, err
	}
	defer model.Close()
	for _, place := range datasets.Spread(d.tested.Len(), n) {
		a, err := d.tested.Read(place)
		if err != nil {
			return sheet, err
		}
		pictures, err := stagesOf(model, d.tested, place, a)
		if err != nil {
			return sheet, err
		}
		for i, objects := range pictures {
			sheet.Images[i] = append(sheet.Images[i], figures.DrawObjects(a.Image(), objects, enlargement(a.Height, a.Width)))
		}
	}
	return sheet, nil
}

// stagesOf returns what the rows of Stages show of an image.
func stagesOf(model *finetune.DetectionModel, images *datasets.ObjectImages, place int, a *datasets.SegmentedImage) (rows [5][]figures.Object, err error) {
	for _, t := range images.Annotations(place) {
		o, err := finetune.ObjectOf(images, place, t)
		if err != nil {
			return rows, err
		}
		rows[0] = append(rows[0], figures.Object{Box: o.Box, Mask: o.Mask, Class: o.Class})
	}
	found, stages, err := model.Entering(context.Background(), a)
	if err != nil {
		return rows, err
	}
	for i, entering := range stages {
		for k, box := range entering[:min(len(entering), mostProposals)] {
			rows[1+i] = append(rows[1+i], figures.Object{Box: box, Class: k}) // A colour for each proposal, to follow it.
		}
	}
	for _, f := range found {
		if f.Score > leastDrawn {
			rows[4] = append(rows[4], figures.Object{Box: f.Box, Mask: f.Mask, Class: f.Class, Label: fmt.Sprintf("%.2f", f.Score)})
		}
	}
	return rows, nil
}

// drawn draws what detectors make of test images, stage by stage. It needs a backend.
func drawn(results study.Results, from study.FigureSources, all *study.Drawn) {
	ofBoxes := slices.DeleteFunc(results.Columns(), func(column string) bool { return !strings.HasSuffix(column, "/"+boxes) })
	caption := fmt.Sprintf("Test images with their objects, the best proposals, both stages, and detections with a score above %g.", leastDrawn)
	dataset := func(column string) string { return strings.TrimSuffix(column, "/"+boxes) }
	encoders.DrawEach(results, from, all, "obj_det", "stages", caption, ofBoxes, dataset, func(row, column, title string) (figures.Figure, error) {
		sheet, err := Stages(results, from.Backend, from.Data, from.Out, row, dataset(column), drawnImages)
		sheet.Title = title
		return sheet, err
	})
}
