package transfer

import (
	"context"
	"image/color"
	"path/filepath"
	"slices"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/encoders"
)

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
