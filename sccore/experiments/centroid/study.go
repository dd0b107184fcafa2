// Package centroid is the experiment of nearest-centroid classification: are the features of patches of one class close to each other?
//
// In go COCOStuff-27 or synthetic scenes, and the encoders of package encoders. Out come records and a table. CONTRIBUTING.md walks through it.
package centroid

import (
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/encoders"
)

// Config is the configuration of a cell.
type Config struct {
	encoders.Config
	Classifier evaluation.NearestCentroid `json:"classifier"`
}

// Study is the experiment.
var Study = encoders.Experiment[Config]{
	Info: study.Info{
		Name:       "centroid",
		Title:      "Are the features of patches of one class close to each other?",
		Reproduces: "no table of the paper: the classifier of its theory, on patches",
		Data:       "COCOStuff-27, or synthetic scenes without --data; encoders from pretrain's runs, or --set weights.dino-s16=FILE",
		Cost:       map[study.Profile]string{study.Smoke: "seconds", study.Quick: "seconds per row on 2 cores", study.Full: "123k images of 448 pixels per row: a GPU"},
	},
	Grid: encoders.Grid[Config]{Table: "main", Config: encoders.Profiles(map[study.Profile]Config{
		study.Smoke: {Classifier: evaluation.NearestCentroid{Images: 24, Size: 32}},
		study.Quick: {Classifier: evaluation.NearestCentroid{Images: 1024, Size: 64}},
		study.Full:  {Classifier: evaluation.NearestCentroid{Size: 448}},
	})},
	Sources:    encoders.Sources[evaluation.Data]{Needed: "COCO", Names: []string{"coco"}},
	Evaluation: func(c Config) evaluation.Evaluation { return c.Classifier },
	Group:      "classifier.",
	Tables:     encoders.Plain("main", "Nearest centroids of patches", "Share of test patches that are nearest to the mean feature of their class."),
}.Spec()
