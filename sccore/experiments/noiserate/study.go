package noiserate

import (
	"cmp"
	"fmt"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/encoders"
)

// Name is the experiment's name.
const Name = "noise-rate"

// Study is the experiment.
var Study = study.Spec[Config, Data]{
	Info: study.Info{
		Name:       Name,
		Title:      "How often do similar patches of different images share their class?",
		Reproduces: "Fig. noise_rate; claims C20, C21",
		Labels:     []string{"noise_rate"},
		Data:       "COCOStuff-27 or PASCAL VOC, or synthetic scenes without --data; encoders from pretrain's runs, or --set weights.dino-s16=FILE",
		Cost: map[study.Profile]string{
			study.Smoke: "seconds", study.Quick: "seconds per row on 2 cores", study.Full: "2,000 images of 448 pixels per row: minutes on a GPU",
		},
	},
	Parts:    []string{"dataset", "row", "seed"},
	Datasets: sources.Datasets,
	Cells:    grid.Cells,
	BySeed:   encoders.Drawn,
	Open: func(o study.Options, dataset string, cells []study.Cell[Config]) (Data, error) {
		if c := cells[0].Config.Sample; dataset == encoders.Synthetic { // The set differs from those of the experiment pretrain.
			return Data{synthetic.Run(cells[0].Seed).Segmentation(c.Images, c.Size, 14)}, nil
		}
		return sources.Open(o.Data, dataset)
	},
	Numbers:       func(data Data, c study.Cell[Config]) []study.Number { return []study.Number{number(data, c)} },
	Steps:         func(Data, study.Cell[Config]) int { return 1 },
	NewWorker:     study.Independent(run),
	Serial:        true,
	ProfileConfig: grid.ProfileConfig,
	Common:        grid.Common,
	Tables:        tables,
	Figures:       drawn,
}

// Config is the configuration of a cell.
type Config struct {
	encoders.Config
	Sample evaluation.PatchSample `json:"sample"`
	Bins   int                    `json:"bins"` // Bins of equal width over similarities from −1 to 1, for the figure.
}

// maxPatches bounds the pairs: of as many patches there are half a billion.
const maxPatches = 1 << 15

var grid = encoders.Grid[Config]{
	Table: "main",
	Config: func(profile study.Profile, dataset, _ string, set []string) (Config, error) {
		c := Config{Bins: 20, Sample: map[study.Profile]evaluation.PatchSample{
			study.Smoke: {Images: 24, PerImage: 8, Size: 32}, study.Quick: {Images: 256, PerImage: 16, Size: 64}, study.Full: {Images: 2000, PerImage: 8, Size: 448},
		}[profile]}
		if err := settings.Apply(&c, set...); err != nil {
			return c, err
		}
		if dataset == encoders.Synthetic {
			if err := synthetic.Check("sample.images", c.Sample.Images, "sample.size", c.Sample.Size); err != nil {
				return c, err
			}
		}
		if err := cmp.Or(
			settings.Between("images", c.Sample.Images, 2, maxPatches), settings.Between("per_image", c.Sample.PerImage, 1, maxPatches/max(c.Sample.Images, 1)),
			c.Sample.Check(),
		); err != nil {
			return c, fmt.Errorf("sample.%w", err)
		}
		return c, settings.Between("bins", c.Bins, 2, 200)
	},
}

var sources = encoders.Sources[Data]{
	Needed: "COCO or PASCAL VOC", None: "none of COCO and PASCAL VOC is", Names: []string{"coco", "voc2012"},
	Open: func(dir, name string) (d Data, err error) {
		d.images, err = datasets.OpenSegmentation(name, dir, datasets.Test)
		return d, err
	},
}

// Data is a set of annotated images that nothing is trained on.
type Data struct{ images *datasets.Segmentation }

// Identity identifies the images in records.
func (d Data) Identity() string { return d.images.Identity }

// Title is the name of the dataset.
func (d Data) Title() string { return d.images.Name }

// Skipped is empty because an unreadable image is an error.
func (d Data) Skipped() []string { return []string{} }
