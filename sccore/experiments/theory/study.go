// Package theory measures the quantities of the paper's theorem on trained encoders, which the augmentation study leaves.
package theory

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/semcon/semcon/analysis/theory"
	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/sccore/methods"
	"github.com/semcon/semcon/sccore/recipe/augmentation"
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
func profileConfig(profile study.Profile, set ...string) (Config, error) {
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

// Study is the experiment.
var Study = study.Spec[Config, data]{
	Info: study.Info{
		Name:       Name,
		Title:      "Is the bound on the error informative for trained encoders, and do they concentrate as the theory predicts?",
		Reproduces: "section \"Theoretical Analysis\", which has no numbers: its quantities for the encoders of " + augmentation.Study,
		Data:       "the encoders under out/" + augmentation.Study + " and the data that trained them",
		Reads:      []string{"cifar10", "cifar100"},
		Cost: map[study.Profile]string{
			study.Smoke: "seconds, after " + augmentation.Study,
			study.Quick: "about 5 minutes on 2 cores, after " + augmentation.Study,
			study.Full:  "not measured",
		},
	},
	Parts:    []string{"dataset", "method", "row", "seed"},
	Datasets: datasetNames,
	Cells:    cells,
	Open:     open,
	BySeed:   study.EachSeed,
	Numbers: func(d data, c study.Cell[Config]) []study.Number {
		r := d.trained[c.Name()]
		return []study.Number{{Row: r.Row, Column: r.Column}}
	},
	Steps:     func(data, study.Cell[Config]) int { return 1 },
	NewWorker: func(*study.Run[Config, data]) (study.Worker[Config, data], error) { return worker{}, nil },
	Folder: func(_ data, c study.Cell[Config]) string {
		return filepath.Join("cells", filepath.FromSlash(c.Name())+"-"+c.Hash())
	},
	ProfileConfig: func(r study.Record, config Config) Config {
		c, _ := profileConfig(r.Profile) // It is always in range.
		c.Trained = config.Trained
		return c
	},
	Common: func(config, _ Config) Config {
		config.Trained = "" // Row, method and seed identify the encoder.
		return config
	},
	Tables:  tables,
	Figures: drawn,
}

// cells lists one cell for each encoder of the augmentation study, in the order of the paper's table.
func cells(o study.Options, dataset string) (cells []study.Cell[Config], err error) {
	config, err := profileConfig(o.Profile, o.Set...)
	if err != nil {
		return nil, err
	}
	trained, err := trainedEncoders(o)
	for _, r := range trained {
		if path := strings.Split(r.Cell, "/"); path[0] == dataset && (o.Seeds == 0 || r.Seed < o.Seeds) {
			config.Trained = r.ConfigHash
			cells = append(cells, study.Cell[Config]{Dataset: dataset, Path: path[:len(path)-1], Seed: r.Seed, Config: config})
		}
	}
	return cells, err
}

// datasetNames lists the datasets with encoders.
func datasetNames(o study.Options) (names, missing []string, err error) {
	if _, err := profileConfig(o.Profile, o.Set...); err != nil {
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
	results, err := augmentation.Load(o)
	if err != nil {
		return nil, err
	}
	for _, method := range methods.Names {
		for _, row := range augmentation.Rows {
			for _, dataset := range augmentation.Datasets(results) {
				trained = append(trained, results.Of(string(row), augmentation.Column(dataset, method))...)
			}
		}
	}
	if len(trained) == 0 {
		return nil, fmt.Errorf("no trained encoder in %s in the %s profile; \"semcon run %s --profile %[2]s --out %[4]s\" trains some",
			study.Folder(o.Out, augmentation.Study), o.Profile, augmentation.Study, o.Out)
	}
	return trained, nil
}

// data holds a dataset and, by cell, the records of the encoders that were trained on it.
type data struct {
	augmentation.Data
	trained map[string]study.Record
}

// Skipped is empty because the records of the encoders list the skipped files.
func (data) Skipped() []string { return []string{} }

// open reads a dataset, or draws the dataset of a seed.
func open(o study.Options, dataset string, cells []study.Cell[Config]) (d data, err error) {
	trained, err := trainedEncoders(o)
	if err != nil {
		return d, err
	}
	d.trained = map[string]study.Record{}
	for _, r := range trained {
		d.trained[r.Cell] = r
	}
	var settings augmentation.Config
	if err := d.trained[cells[0].Name()].DecodeConfig(&settings); err != nil {
		return d, err
	}
	d.Data, err = augmentation.Open(o, dataset, settings.Shares, cells[0].Seed)
	return d, err
}

// worker measures encoders. It compiles each architecture once.
type worker map[string]*methods.FeatureExtractor

// Close frees the device's memory.
func (w worker) Close() {
	for _, frozen := range w {
		frozen.Close()
	}
}

// tailsFile holds an encoder's curves of p_T and q_T.
const tailsFile = "tails.csv"

// The views that features are computed from.
const (
	OwnViews    = "own" // The views that the encoder was trained with.
	CommonViews = "all" // The views with all transformations, the same for every encoder.
)

// Run records the quantities of one encoder, on the views that it was trained with and on the views with all transformations.
func (w worker) Run(r *study.Run[Config, data]) error {
	trained, config := r.Data.trained[r.Cell.Name()], r.Cell.Config
	if trained.Data != r.Data.Identity() {
		return fmt.Errorf("the encoder was trained on other data than --data: %s", trained.Data)
	}
	var settings augmentation.Config
	if err := trained.DecodeConfig(&settings); err != nil {
		return err
	}
	encoder := w[settings.Encoder]
	if encoder == nil {
		var err error
		if encoder, err = methods.NewFeatureExtractor(r.Backend(), settings.Encoder, augmentation.ImageSize, config.Views); err != nil {
			return err
		}
		w[settings.Encoder] = encoder
	}
	file := trained.File(r.Options().Out, path.Join(path.Dir(trained.Curve), augmentation.WeightsFile))
	if err := encoder.Load(file); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: the encoder of this record does not exist any more", file)
	} else if err != nil {
		return err
	}
	train := r.Data.Train
	images := train.Subset(len(train.Classes) * min(config.Images, train.SmallestClass()))
	details, tails := map[string]float64{"knn_accuracy": trained.Value / 100}, &theory.TailsFile{}
	for _, name := range []string{OwnViews, CommonViews} {
		recipe := settings.Recipe
		if name == CommonViews {
			recipe = augmentation.AllCrops.Recipe(recipe)
		}
		flat, dim, err := encoder.Features(images, recipe, uint64(trained.Seed))
		if err != nil {
			return err
		}
		for _, form := range theory.Forms {
			f, err := theory.NewFeaturesInForm(flat, dim, images.Labels, len(train.Classes), config.Views, form)
			if err != nil {
				return err
			}
			values, curves, err := f.Quantities(config.Thresholds)
			if err != nil {
				return err
			}
			for quantity, value := range values {
				details[name+"."+form+"."+quantity] = value
			}
			tails.Add(name, form, curves)
		}
	}
	if err := atomicfile.WriteBytes(filepath.Join(r.Dir, tailsFile), tails.Bytes()); err != nil {
		return err
	}
	curve, err := r.Path(tailsFile)
	if err != nil {
		return err
	}
	r.Step("measured")
	return r.Record(study.Number{
		Row: trained.Row, Column: trained.Column, Metric: "nearest-mean error", Unit: "%", Value: 100 * details[OwnViews+"."+theory.BackboneForm+".error"],
		Protocol: fmt.Sprintf("backbone features of %d training images, the first of each class, %d views each; error of the nearest class mean on these views",
			images.Len(), config.Views),
		Details: details, Curve: curve,
	})
}
