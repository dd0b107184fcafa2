// Package centroid is the experiment of nearest-centroid classification: are the features of patches of one class close to each other?
//
// In go COCOStuff-27 or synthetic scenes, and the encoders of package encoders. Out come records of patch accuracy and a table, which the paper does not
// have. CONTRIBUTING.md explains how to add such an evaluation with this package as its example.
package centroid

import (
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/encoders"
)

// Name is the experiment's name.
const Name = "centroid"

// Config is the configuration of a cell.
type Config struct {
	encoders.Config
	Classifier evaluation.NearestCentroid `json:"classifier"`
}

// Study is the experiment.
var Study = encoders.Experiment[Config]{
	Info: study.Info{
		Name:       Name,
		Title:      "Are the features of patches of one class close to each other?",
		Reproduces: "no table of the paper: the classifier of its theory, on patches",
		Data:       "COCOStuff-27, or synthetic scenes without --data; encoders from pretrain's runs, or --set weights.dino-s16=FILE",
		Cost:       map[study.Profile]string{study.Smoke: "seconds", study.Quick: "seconds per row on 2 cores", study.Full: "123k images of 448 pixels per row: a GPU"},
	},
	Grid:       encoders.Grid[Config]{Table: "main", Config: encoders.Configured(defaults, rules)},
	Sources:    encoders.Sources[evaluation.Data]{Needed: "COCO", Names: []string{"coco"}},
	Evaluation: func(c Config) evaluation.Evaluation { return c.Classifier },
	Drawn: func(c Config) evaluation.Source {
		return evaluation.Source{Images: c.Classifier.Images, Size: c.Classifier.Size}
	},
	Tables: encoders.Plain("main", "Nearest centroids of patches",
		"Share of test patches that are nearest to the mean feature of their class. The paper has no such table."),
}.Spec()

func defaults(profile study.Profile, _ string) Config {
	return Config{Classifier: map[study.Profile]evaluation.NearestCentroid{
		study.Smoke: {Images: 24, Size: 32}, study.Quick: {Images: 1024, Size: 64}, study.Full: {Size: 448},
	}[profile]}
}

func rules(c Config, dataset string) error {
	if encoders.Drawn(dataset) {
		return synthetic.Check("classifier.images", c.Classifier.Images, "classifier.size", c.Classifier.Size)
	}
	return nil
}
