package finetuning

import (
	"context"
	"fmt"
	"image"
	"image/color"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/finetune"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/encoders"
)

// Predictions segments n evenly spread test images with the trained model of the lowest seed of a row ("random", "second", "dino-s16") and column.
// It also returns the names of the classes. A row and column without records is an error.
func Predictions(r study.Results, b compute.Backend, data, out, row, column string, n int) ([]figures.Segmented, []string, error) {
	record, c, dataset, file, err := encoders.Recorded[Config](r, out, Name, row, column)
	if err != nil {
		return nil, nil, err
	}
	images, err := open(study.Options{Data: data}, dataset, c, record.Seed)
	if err != nil {
		return nil, nil, err
	}
	model, err := finetune.OpenSegmentationModel(b, file)
	if err != nil {
		return nil, nil, err
	}
	defer model.Close()
	var predictions []figures.Segmented
	var colours color.Palette // Nil: drawn classes have the colours of every figure.
	if dataset != encoders.Synthetic {
		colours = images.Test.Colours()
	}
	for _, place := range datasets.Spread(images.Test.Len(), n) {
		a, err := images.Test.Read(place)
		if err != nil {
			return nil, nil, err
		}
		classes, err := model.Inference.Predict(context.Background(), a, model.Segment)
		if err != nil {
			return nil, nil, err
		}
		predictions = append(predictions, figures.Segmented{Image: a, Predicted: classes, Colours: colours})
	}
	return predictions, images.Test.Classes, nil
}

// Crops draws the first n training crops of a dataset with their labels, as the profile's configuration makes them. Ignored pixels, which include the
// padding, are grey.
func Crops(data, dataset string, profile study.Profile, n int) (figures.ImageGrid, error) {
	c := profileConfig(profile, dataset, finetune.UPerNet)
	d, err := open(study.Options{Data: data}, dataset, c, 0)
	if err != nil {
		return figures.ImageGrid{}, err
	}
	side := c.Augmentation.CropSize
	sheet := figures.ImageGrid{
		Title: fmt.Sprintf("training crops of %d px, %s", side, d.Title()), RowLabels: []string{"crop", "labels"}, Images: make([][]image.Image, 2), Scale: max(1, 168/side),
	}
	for i := range min(n, d.Train.Len()) {
		a, err := d.Train.Read(i)
		if err != nil {
			return sheet, err
		}
		crop := c.Augmentation.Apply(a, 0, 0, i)
		picture := datasets.SegmentedImage{Height: side, Width: side, Pixels: crop.Pixels}
		sheet.Images[0] = append(sheet.Images[0], picture.Image())
		sheet.Images[1] = append(sheet.Images[1], figures.ClassMap(crop.Labels, side))
	}
	return sheet, nil
}
