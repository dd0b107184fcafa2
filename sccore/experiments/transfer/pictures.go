package transfer

import (
	"context"
	"fmt"
	"image"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/study"
	"golang.org/x/image/draw"
)

// Prediction is an image with its true and predicted classes.
type Prediction struct {
	Image     *datasets.SegmentedImage
	Predicted []uint8 // [Height, Width]
}

// Predictions are what the trained heads of a row ("random", "second", "dino-s16") and column, of the lowest seed, make of n test images, evenly spread,
// and the names of the classes. A row and column without runs is an error.
func (r Results) Predictions(b compute.Backend, data, out, row, column string, n int) ([]Prediction, []string, error) {
	group := r.Of(row, column)
	if len(group) == 0 {
		return nil, nil, fmt.Errorf("no record of %s, %s in the %s profile", row, column, r.Profile)
	}
	record := group[0]
	var c Config
	err := record.DecodeConfig(&c)
	if err != nil {
		return nil, nil, err
	}
	if c.Encoder, err = c.Encoder.Located(out, r.Profile, record.Seed); err != nil {
		return nil, nil, err
	}
	dataset, _, _ := strings.Cut(record.Cell, "/")
	images, err := open(data, dataset, c)
	if err != nil {
		return nil, nil, err
	}
	w := newWorker(b)
	defer w.Close()
	frozen, trainer, err := w.prepare(c, record.Seed, len(images.test.Classes))
	if err != nil {
		return nil, nil, err
	}
	if _, err := trainer.Resume(filepath.Join(study.Folder(out, Name), filepath.FromSlash(record.Curve), headsFile)); err != nil {
		return nil, nil, err
	}
	best := slices.Index(c.Rates[:], record.Details["rate"])
	var which []int
	for _, place := range spread(len(images.seen), n) {
		which = append(which, images.seen[place])
	}
	fixed := evaluation.FixedFeatures{Encoder: frozen, Images: images.test, Crop: c.crop(), Test: c.Test}
	predictions := make([]Prediction, len(which))
	err = trainer.Predict(images.test, which, c.Test/frozen.ViT.PatchSize, fixed.Whole(context.Background(), which),
		func(place int, a *datasets.SegmentedImage, head int, classes []uint8) error {
			if head == best {
				predictions[place] = Prediction{a, classes}
			}
			return nil
		})
	return predictions, images.test.Classes, err
}

// sheetSide is the longer side of a picture in [Sheet].
const sheetSide = 168

// Sheet shows predictions below their images and the truth, one column an image, with a legend of the classes that occur.
func Sheet(title string, predictions []Prediction, classes []string) figures.ImageGrid {
	sheet := figures.ImageGrid{Title: title, RowLabels: []string{"image", "truth", "prediction"}, Images: make([][]image.Image, 3), Scale: 1}
	occurs := map[uint8]bool{}
	for _, p := range predictions {
		for _, class := range slices.Concat(p.Image.Mask, p.Predicted) {
			occurs[class] = true
		}
		for i, picture := range []image.Image{p.Image.Image(), figures.ClassMap(p.Image.Mask, p.Image.Width), figures.ClassMap(p.Predicted, p.Image.Width)} {
			sheet.Images[i] = append(sheet.Images[i], fitted(picture, i == 0))
		}
	}
	for class, name := range classes {
		if occurs[uint8(class)] {
			sheet.Legend = append(sheet.Legend, figures.ColourName{Colour: figures.ClassColour(uint8(class)), Name: name})
		}
	}
	if occurs[datasets.Ignore] {
		sheet.Legend = append(sheet.Legend, figures.ColourName{Colour: figures.ClassColour(datasets.Ignore), Name: "ignored"})
	}
	return sheet
}

// fitted brings a picture's longer side to sheetSide: photographs smoothly, maps without mixing their colours.
func fitted(picture image.Image, smooth bool) image.Image {
	size := picture.Bounds().Size()
	longer := max(size.X, size.Y)
	small := image.NewRGBA(image.Rect(0, 0, max(1, size.X*sheetSide/longer), max(1, size.Y*sheetSide/longer)))
	var scaler draw.Scaler = draw.NearestNeighbor
	if smooth && longer > sheetSide {
		scaler = draw.CatmullRom
	}
	scaler.Scale(small, small.Rect, picture, picture.Bounds(), draw.Src, nil)
	return small
}
