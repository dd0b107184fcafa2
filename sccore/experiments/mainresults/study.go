package mainresults

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/knn"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/encoders"
)

// Name is the experiment's name.
const Name = "main"

// Study is the experiment.
var Study = study.Spec[Config, Data]{
	Info: study.Info{
		Name:       Name,
		Title:      "How good are frozen features of whole images and of patches?",
		Reproduces: "Tab. main",
		Labels:     []string{"main"},
		Data:       "ImageNet-1k as class folders imagenet/train and imagenet/val, and COCOStuff-27, whichever --data has; without it synthetic objects and scenes",
		Cost: map[study.Profile]string{
			study.Smoke: "seconds",
			study.Quick: "half a minute per row on 2 cores, a fifth of the images of --data per seed; --set weights.dino-s16=FILE adds a row",
			study.Full:  "1.4 million images per row: a GPU",
		},
	},
	Parts:    []string{"dataset", "row", "seed"},
	Datasets: Sources.Datasets,
	Cells:    grid.Cells,
	BySeed:   study.EachSeed,
	Open: func(o study.Options, dataset string, cells []study.Cell[Config]) (Data, error) {
		c, seed := cells[0].Config, cells[0].Seed
		if dataset == encoders.Synthetic {
			return draw(c, seed), nil
		}
		d, err := Sources.Open(o.Data, dataset)
		if err != nil {
			return d, err
		}
		return d.Share(o, seed, c.Shares).Sample(c.Images), nil
	},
	Numbers:       func(_ Data, c study.Cell[Config]) []study.Number { return []study.Number{number(c)} },
	Steps:         func(Data, study.Cell[Config]) int { return 1 },
	NewWorker:     study.Independent(run),
	Serial:        true,
	ProfileConfig: grid.ProfileConfig,
	Common:        grid.Common,
	Tables:        tables,
}

// The real datasets.
const (
	imageNet  = "imagenet"
	cocoStuff = "coco"
)

// titles are the names of the datasets in records and tables.
var titles = map[string]string{imageNet: "ImageNet-1k", cocoStuff: "COCOStuff-27", encoders.Synthetic: "synthetic objects and scenes"}

// Config is the configuration of a cell. Settings that its dataset does not use are 0 and omitted from the JSON.
type Config struct {
	encoders.Config

	// Preprocessing makes crops of Size of pictures to classify. To segment, only its colours count; the default is omitted then.
	Preprocessing datasets.Preprocessing `json:"preprocessing,omitzero"`

	Images int                    `json:"images"`          // Images per split and seed: drawn, or taken evenly spread from the seed's share of a real dataset, where 0 means all.
	Shares int                    `json:"shares,omitzero"` // Shares that the images of a real dataset are cut into. Seed 0 has the first, and so on. 1 gives all to every seed.
	Size   int                    `json:"size,omitzero"`   // Height and width in pixels of objects and of synthetic scenes.
	KNN    knn.Classifier         `json:"knn,omitzero"`    // Classifies [CLS] features of objects.
	Class  evaluation.LinearProbe `json:"class,omitzero"`  // Classifies them, too.
	Patch  evaluation.PatchProbe  `json:"patch,omitzero"`  // Segments synthetic scenes.

	Segmentation evaluation.SegmentationProbe `json:"segmentation,omitzero"` // Segments COCOStuff-27.
}

var grid = encoders.Grid[Config]{
	Table:  "main",
	Shares: func(c Config) int { return c.Shares },
	Config: func(profile study.Profile, dataset, _ string, set []string) (Config, error) {
		read := dataset != encoders.Synthetic
		c := ProfileConfig(profile, read)
		if err := settings.Apply(&c, set...); err != nil {
			return c, err
		}
		return c.on(dataset), c.check(read)
	},
}

// ProfileConfig returns the configuration of a profile before --set, for real images if read is true, else for synthetic ones.
func ProfileConfig(profile study.Profile, read bool) Config {
	c := Config{Size: 224, KNN: knn.DINOClassifier(), Class: evaluation.DefaultLinearProbe()}
	if read {
		c.Segmentation, c.Preprocessing = evaluation.DefaultSegmentationProbe(), datasets.DefaultPreprocessing()
	} else {
		c.Size, c.Images, c.Patch = 64, 1024, evaluation.DefaultPatchProbe()
	}
	if profile != study.Full {
		c.Class = evaluation.FastLinearProbe()
		c.Class.Epochs = 20 // The paper has 100.
	}
	if read {
		c.Shares = 1
	}
	if read && profile == study.Quick { // The size that its encoders are trained for.
		c.Size, c.Shares = 64, 5
	}
	if read && profile != study.Full {
		c.Segmentation.CropSize, c.Segmentation.TestSize, c.Segmentation.Batch, c.Segmentation.Epochs = 96, 128, 8, 8
	}
	if profile == study.Smoke {
		c.Size, c.Images, c.KNN.K = 32, 24, 5
		c.Class.Epochs, c.Class.Batch = 2, 8
		if read {
			c.Segmentation.CropSize, c.Segmentation.TestSize, c.Segmentation.Epochs = 32, 32, 1
		} else {
			c.Patch.Steps, c.Patch.Batch = 10, 64
		}
	}
	return c
}

// on returns the configuration without the settings that a dataset does not use.
func (c Config) on(dataset string) Config {
	switch dataset {
	case imageNet:
		c.Segmentation = evaluation.SegmentationProbe{}
	case cocoStuff:
		c.Size, c.KNN, c.Class = 0, knn.Classifier{}, evaluation.LinearProbe{}
		colours := datasets.DefaultPreprocessing()
		if colours.Mean, colours.Std = c.Preprocessing.Mean, c.Preprocessing.Std; colours == datasets.DefaultPreprocessing() {
			colours = datasets.Preprocessing{}
		}
		c.Preprocessing = colours
	}
	return c
}

// check returns an error that names the first value out of range.
func (c Config) check(read bool) error {
	if !read {
		if c.Shares != 0 {
			return errors.New("shares: synthetic images are drawn for each seed")
		}
		return cmp.Or(synthetic.Check("images", c.Images, "size", c.Size), settings.CheckGroup("knn", c.KNN), c.Class.Check(), settings.CheckGroup("patch", c.Patch))
	}
	if err := cmp.Or(settings.Between("images", c.Images, 0, math.MaxInt32), settings.Between("shares", c.Shares, 1, 1<<20), settings.Between("size", c.Size, 8, settings.MaxImageSize)); err != nil {
		return err
	}
	if c.Preprocessing.CropMode == datasets.WholeImage {
		return fmt.Errorf("preprocessing: crop_mode %s: this experiment takes crops of one size", c.Preprocessing.CropMode)
	}
	if err := settings.CheckGroup("preprocessing", c.Preprocessing); err != nil {
		return err
	}
	return cmp.Or(settings.CheckGroup("knn", c.KNN), c.Class.Check(), c.Segmentation.Check())
}

// Protocol describes how the numbers of a dataset are measured.
func (c Config) Protocol(dataset string) string {
	s, k, l := c.Segmentation, c.KNN, c.Class
	if dataset == cocoStuff {
		text := fmt.Sprintf("linear 1×1 head on fixed patch features; crops of %d px of %g to 1 of an image's area, mirrored half of the time, %d of each training image in "+
			"batches of %d, Adam at rate %g; test images resized to %d×%d px, logits resized bilinearly to the annotation's size, ignored pixels (255) left out",
			s.CropSize, s.MinScale, s.Epochs, s.Batch, s.LearningRate, s.TestSize, s.TestSize)
		if c.Preprocessing != (datasets.Preprocessing{}) {
			text += "; " + c.Preprocessing.Colours()
		}
		return text
	}
	images := fmt.Sprintf("%d-pixel images", c.Size)
	if dataset == imageNet {
		images = "images, " + c.Preprocessing.Describe(c.Size)
	}
	text := fmt.Sprintf("[CLS] features of %s; weighted k-NN, K %d, temperature %g, cosine; linear probe, AdamW, %d epochs of batches of %d, rate %g",
		images, k.K, k.Temperature, l.Epochs, l.Batch, l.LearningRate)
	if dataset == encoders.Synthetic {
		text += fmt.Sprintf("; on scenes a linear probe of patch features, %d steps of %d patches, background a class, logits resized to the annotation",
			c.Patch.Steps, c.Patch.Batch)
	}
	return text
}
