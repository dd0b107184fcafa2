package theory

import (
	"cmp"
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

// Config is the configuration of a cell.
type Config struct {
	// Images is n, the number of training images per class, or the size of the smallest class if that is lower. Views is m, the number of views per image.
	Images int `json:"images" range:"[2,2^16]"`
	Views  int `json:"views" range:"[1,1024]"`
	// Thresholds is the number of values of δ_T and d_T that are searched; see theory.Features.Thresholds.
	Thresholds int `json:"thresholds" range:"[2,10000]"`
	// Trained is the hash of the configuration that trained the encoder.
	Trained string `json:"trained"`
}

// profileConfig returns a profile's configuration with --set applied.
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
	const classes, bytesOfFeature = 10, 4 * 512 // CIFAR-10's; with more classes there are fewer images of each.
	what := fmt.Sprintf("images %d of views %d", config.Images, config.Views)
	return config, cmp.Or(settings.Check(config), settings.Fit(settings.MaxBytes, what, classes, config.Images, config.Views, bytesOfFeature))
}

// cells lists one cell for each encoder of the augmentation study, in the order of the paper's table.
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

// datasetNames lists the datasets with encoders.
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

// trainedEncoders returns the records of the augmentation study whose encoders are measured, in the order of the paper's table. If there are none, the
// error says how to train some.
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
		return nil, fmt.Errorf("no trained encoder in %s in the %s profile; \"semcon run %s --profile %s --out %s\" trains some",
			study.Folder(o.Out, effectaug.Name), o.Profile, effectaug.Name, o.Profile, o.Out)
	}
	return trained, nil
}

// Study is the experiment.
var Study = study.Spec[Config, data]{
	Info: study.Info{
		Name:       Name,
		Title:      "Is the bound on the error informative for trained encoders, and do they concentrate as the theory predicts?",
		Reproduces: "section \"Theoretical Analysis\", which has no numbers: its quantities for the encoders of " + effectaug.Name,
		Data:       "the encoders under out/" + effectaug.Name + " and the data that trained them",
		Cost: map[study.Profile]string{
			study.Smoke: "seconds, after " + effectaug.Name,
			study.Quick: "about 5 minutes on 2 cores, after " + effectaug.Name,
			study.Full:  "not measured",
		},
	},
	Parts:    []string{"dataset", "method", "row", "seed"},
	Datasets: datasetNames,
	Cells:    cells,
	Open:     open,
	BySeed:   effectaug.Study.BySeed,
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
		c, err := profileConfig(r.Profile, nil)
		if err != nil {
			panic(err) // A profile's configuration is always in range.
		}
		c.Trained = config.Trained
		return c
	},
	Common: func(config, _ Config) Config {
		config.Trained = "" // Row, method and seed identify the encoder.
		return config
	},
	Tables:  func(r study.Results) []figures.Table { return Results{r}.tables() },
	Figures: drawn,
}
