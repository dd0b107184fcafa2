// Package centroid is the experiment of nearest-centroid classification: are the features of patches of one class close to each other?
//
// In go COCOStuff-27 or synthetic scenes, and the encoders of package encoders. Out come records and a table. CONTRIBUTING.md walks through it.
package centroid

import (
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/study/encoders"
)

// Config is the configuration of a cell.
type Config struct {
	encoders.Config
	Classifier evaluation.NearestCentroid `json:"classifier"`
}

// Study is the experiment.
var Study = encoders.Experiment[Config]{
	Grid:       encoders.Grid[Config]{Name: "centroid", Table: "main"},
	Evaluation: func(c Config) evaluation.Evaluation { return c.Classifier },
	Group:      "classifier.",
	Tables:     encoders.Plain("main", "Nearest centroids of patches", "Share of test patches that are nearest to the mean feature of their class."),
}.Spec()
