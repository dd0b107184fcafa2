// Package noiserate is the experiment of Fig. noise_rate: how often do similar patches of different images share their class, before and after training
// with the method?
//
// In go annotated images, COCOStuff-27, PASCAL VOC or synthetic scenes, and the encoders of package encoders. Out come records of the positive rate by
// similarity, a table, the figure and the claims C20 and C21.
package noiserate

import (
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/encoders"
)

// Name is the experiment's name.
const Name = "noise-rate"

// Config is the configuration of a cell.
type Config struct {
	encoders.Config
	evaluation.NoiseRate
}

// Study is the experiment.
var Study = encoders.Experiment[Config]{
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
	Grid:       encoders.Grid[Config]{Table: "main", Config: encoders.Configured(defaults, rules)},
	Sources:    encoders.Sources[evaluation.Data]{Needed: "COCO or PASCAL VOC", None: "none of COCO and PASCAL VOC is", Names: []string{"coco", "voc2012"}},
	Evaluation: func(c Config) evaluation.Evaluation { return c.NoiseRate },
	Drawn: func(c Config) evaluation.Source {
		return evaluation.Source{Images: c.Sample.Images, Size: c.Sample.Size}
	},
	Tables:  tables,
	Figures: drawn,
}.Spec()

func defaults(profile study.Profile, _ string) Config {
	return Config{NoiseRate: evaluation.NoiseRate{Bins: 20, Sample: map[study.Profile]evaluation.PatchSample{
		study.Smoke: {Images: 24, PerImage: 8, Size: 32}, study.Quick: {Images: 256, PerImage: 16, Size: 64}, study.Full: {Images: 2000, PerImage: 8, Size: 448},
	}[profile]}}
}

func rules(c Config, dataset string) error {
	if encoders.Drawn(dataset) {
		return synthetic.Check("sample.images", c.Sample.Images, "sample.size", c.Sample.Size)
	}
	return nil
}
