package centroid

import (
	"slices"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/settings"
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
	Grid:       encoders.Grid[Config]{Table: "main", Config: config},
	Sources:    encoders.Sources[evaluation.Data]{Needed: "COCO", Names: []string{"coco"}},
	Evaluation: func(c Config) evaluation.Evaluation { return c.Classifier },
	Drawn: func(c Config) evaluation.Source {
		return evaluation.Source{Images: c.Classifier.Images, Size: c.Classifier.Size}
	},
	Tables: tables,
}.Spec()

func config(profile study.Profile, dataset, _ string, set []string) (Config, error) {
	c := Config{Classifier: map[study.Profile]evaluation.NearestCentroid{
		study.Smoke: {Images: 24, Size: 32}, study.Quick: {Images: 1024, Size: 64}, study.Full: {Size: 448},
	}[profile]}
	if err := settings.Apply(&c, set...); err != nil {
		return c, err
	}
	if err := c.Classifier.Check(); err != nil || !encoders.Drawn(dataset) {
		return c, err
	}
	return c, synthetic.Check("classifier.images", c.Classifier.Images, "classifier.size", c.Classifier.Size)
}

// tables returns one table of all encoders and datasets with records.
func tables(results study.Results) ([]figures.Table, error) {
	rows, err := encoders.PaperRows("main")
	if err != nil {
		return nil, err
	}
	rows = encoders.WithRecords(results, slices.Concat(encoders.OurRows(), rows), results.Columns()...)
	return []figures.Table{encoders.Table{
		Title: "Nearest centroids of patches", Caption: "Share of test patches that are nearest to the mean feature of their class. The paper has no such table.",
		Rows: rows, Heads: []figures.RowHead{{Name: "method"}, {Name: "arch"}}, Columns: results.Columns(), Detail: func(string) string { return "" },
	}.Alone(results)}, nil
}
