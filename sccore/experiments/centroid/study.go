package centroid

import (
	"fmt"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/experiments/encoders"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
)

// Name is the experiment's name.
const Name = "centroid"

// Study is the experiment.
var Study = study.Spec[Config, Data]{
	Info: study.Info{
		Name:       Name,
		Title:      "Are the features of patches of one class close to each other?",
		Reproduces: "no table of the paper: the classifier of its theory, on patches",
		Data:       "COCOStuff-27, or synthetic scenes without --data; encoders from pretrain's runs, or --set weights.dino-s16=FILE",
		Cost:       map[study.Profile]string{study.Smoke: "seconds", study.Quick: "seconds per row on 2 cores", study.Full: "123k images of 448 pixels per row: a GPU"},
	},
	Parts:    []string{"dataset", "row", "seed"},
	Datasets: sources.Datasets,
	Cells:    grid.Cells,
	Open: func(o study.Options, dataset string, cells []study.Cell[Config]) (Data, error) {
		if c := cells[0].Config.Classifier; dataset == encoders.Synthetic { // The sets differ from those of the experiment pretrain.
			run := synthetic.Run(cells[0].Seed)
			return Data{run.Segmentation(c.Images, c.Size, 12), run.Segmentation(c.Images, c.Size, 14)}, nil
		}
		return sources.Open(o.Data, dataset)
	},
	BySeed:        encoders.Drawn,
	Numbers:       func(data Data, c study.Cell[Config]) []study.Number { return []study.Number{number(data, c)} },
	Steps:         func(Data, study.Cell[Config]) int { return 1 },
	NewWorker:     study.Independent(run),
	Serial:        true,
	ProfileConfig: grid.ProfileConfig,
	Common:        grid.Common,
	Tables:        tables,
}

// Config is the configuration of a cell.
type Config struct {
	Encoder    encoders.Encoder           `json:"encoder"`
	Classifier evaluation.NearestCentroid `json:"classifier"`
}

// Hashed omits the path of the encoder's file.
func (c Config) Hashed() any {
	c.Encoder = c.Encoder.Portable()
	return c
}

var grid = encoders.Grid[Config]{
	Table:   "main",
	Encoder: func(c *Config) *encoders.Encoder { return &c.Encoder },
	Config: func(profile study.Profile, dataset, _ string, set []string) (Config, error) {
		c := Config{Classifier: map[study.Profile]evaluation.NearestCentroid{
			study.Smoke: {Images: 24, Size: 32}, study.Quick: {Images: 1024, Size: 64}, study.Full: {Size: 448},
		}[profile]}
		if err := settings.Apply(&c, set...); err != nil {
			return c, err
		}
		if err := c.Classifier.Check(); err != nil || dataset != encoders.Synthetic {
			return c, err
		}
		return c, synthetic.Check("classifier.images", c.Classifier.Images, "classifier.size", c.Classifier.Size)
	},
}

var sources = encoders.Sources[Data]{
	Needed: "COCO", Names: []string{"coco"},
	Open: func(dir, _ string) (d Data, err error) {
		if d.train, err = datasets.COCOStuff27(dir, datasets.Train); err == nil {
			d.test, err = datasets.COCOStuff27(dir, datasets.Test)
		}
		return d, err
	},
}

// Data is a dataset: training images give the class means, test images are classified.
type Data struct{ train, test *datasets.Segmentation }

// Identity identifies the images in records.
func (d Data) Identity() string { return d.train.Identity + "; " + d.test.Identity }

// Title is the name of the dataset.
func (d Data) Title() string { return d.train.Name }

// Skipped is empty because an unreadable image is an error.
func (d Data) Skipped() []string { return []string{} }

// number is the number that a cell records, without its value.
func number(data Data, c study.Cell[Config]) study.Number {
	return study.Number{
		Row: c.Config.Encoder.Row, Column: data.Title(), Metric: "patch accuracy", Unit: "%",
		Protocol: fmt.Sprintf("class of the nearest mean of training features, Euclidean; images of %d px", c.Config.Classifier.Size),
	}
}

// run measures a cell's encoder and records its number.
func run(r *study.Run[Config, Data]) error {
	encoder, err := r.Cell.Config.Encoder.Open(r.Backend(), r.Cell.Seed)
	if err != nil {
		return err
	}
	defer encoder.Close()
	n := number(r.Data, r.Cell)
	if n.Value, err = r.Cell.Config.Classifier.Measure(r.Context, encoder.FeatureExtractor, r.Data.train, r.Data.test); err != nil {
		return err
	}
	r.Step("%s %.1f %%", n.Metric, n.Value)
	return r.Record(n)
}
