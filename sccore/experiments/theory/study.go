// Package theory holds the paper's theorem against trained encoders: those that the augmentation study has left.
package theory

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/experiments/effectaug"
	"github.com/semcon/semcon/sccore/methods"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
)

// Name is the experiment's name.
const Name = "theory"

// Config is what the theorem's quantities are measured with.
type Config struct {
	// Images is n, the number of training images of each class, fewer where a class has fewer; Views is m, the number of views of each.
	Images int `json:"images"`
	Views  int `json:"views"`
	// Thresholds is how finely δ_T and d_T are searched, see theory.Features.Thresholds.
	Thresholds int `json:"thresholds"`
	// Trained is the hash of the configuration that the encoder was trained with.
	Trained string `json:"trained"`
}

// profileConfig is a profile's configuration with --set applied.
func profileConfig(profile study.Profile, set []string) (Config, error) {
	config := Config{Images: 100, Views: 4, Thresholds: 200}
	switch profile {
	case study.Smoke:
		config = Config{Images: 8, Views: 2, Thresholds: 50}
	case study.Full:
		config.Images = 500
	}
	if err := settings.Apply(&config, set...); err != nil {
		return config, err
	}
	if config.Images < 2 || config.Views < 1 || config.Thresholds < 2 {
		return config, fmt.Errorf("--set images %d, views %d, thresholds %d: want 2, 1 and 2 at least", config.Images, config.Views, config.Thresholds)
	}
	return config, nil
}

// cells are those of the augmentation study that have left an encoder, in the order of the paper's table.
func cells(o study.Options, dataset string) ([]study.Cell[Config], error) {
	config, err := profileConfig(o.Profile, o.Set)
	if err != nil {
		return nil, err
	}
	trained, err := trainedEncoders(o)
	if err != nil {
		return nil, err
	}
	var cells []study.Cell[Config]
	for _, r := range trained {
		path := strings.Split(r.Cell, "/")
		if path[0] != dataset || o.Seeds > 0 && r.Seed >= o.Seeds {
			continue
		}
		c := study.Cell[Config]{Dataset: dataset, Path: path[:len(path)-1], Seed: r.Seed, Config: config}
		c.Config.Trained = r.ConfigHash
		cells = append(cells, c)
	}
	return cells, nil
}

// datasetNames are those of the datasets that there are encoders for.
func datasetNames(o study.Options) (names, missing []string, err error) {
	if _, err := profileConfig(o.Profile, o.Set); err != nil {
		return nil, nil, study.BadOption{Err: err}
	}
	trained, err := trainedEncoders(o)
	for _, r := range trained {
		if name, _, _ := strings.Cut(r.Cell, "/"); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil, err
}

// trainedEncoders are the records of the augmentation study whose encoders are measured, in the order of the paper's table. Without any the error
// says how to get some.
func trainedEncoders(o study.Options) (trained []study.Record, err error) {
	results, err := effectaug.Load(o.Out, o.Profile)
	if err != nil {
		return nil, err
	}
	for _, method := range methods.Names {
		for _, row := range effectaug.Rows {
			for _, dataset := range results.Datasets() {
				trained = append(trained, results.Of(row.Name, dataset+"/"+effectaug.MethodTitles[method])...)
			}
		}
	}
	if len(trained) == 0 {
		return nil, fmt.Errorf("no trained encoder in %s in the %s profile; \"semcon run %s --profile %s\" trains some",
			study.Folder(o.Out, effectaug.Name), o.Profile, effectaug.Name, o.Profile)
	}
	return trained, nil
}

// Study is the experiment.
var Study = study.Spec[Config, data]{
	Info: study.Info{
		Name:       Name,
		Title:      "Does the bound on the error say anything about trained encoders, and do they concentrate as the theory has it?",
		Reproduces: "section \"Implicit Semantic Concentration\", which has no numbers: its quantities on the encoders of " + effectaug.Name,
		Data:       "the trained encoders under out/" + effectaug.Name + " and the data that they were trained on",
		Cost: map[study.Profile]string{
			study.Smoke: "seconds, after " + effectaug.Name,
			study.Quick: "about 2 minutes on 2 cores, after " + effectaug.Name,
			study.Full:  "not measured",
		},
	},
	Parts:    []string{"dataset", "method", "row", "seed"},
	Datasets: datasetNames,
	Cells:    cells,
	Open:     open,
	Numbers: func(d data, c study.Cell[Config]) []study.Number {
		r := d.trained[c.Name()]
		return []study.Number{{Row: r.Row, Column: r.Column}}
	},
	Steps: func(data, study.Cell[Config]) int { return 1 },
	NewWorker: func(*run) (study.Worker[Config, data], error) {
		return &worker{frozen: map[string]*methods.FeatureExtractor{}}, nil
	},
	Folder: func(_ data, c study.Cell[Config]) string {
		return filepath.Join("cells", filepath.FromSlash(c.Name())+"-"+c.Hash())
	},
	ProfileConfig: func(r study.Record, config Config) Config {
		own, err := profileConfig(r.Profile, nil)
		if err != nil {
			panic(err) // Without --set there is nothing to be wrong.
		}
		own.Trained = config.Trained
		return own
	},
	Common: func(config, _ Config) Config {
		config.Trained = "" // Which encoder it was is the row's, the method's and the seed's.
		return config
	},
	Tables: func(r study.Results) ([]figures.Table, error) { return Results{r}.tables(), nil },
}
