// Package effectaug is the augmentation study (Tab. effect_aug and effect_aug_full). It measures how the k-NN accuracy of four image-level methods
// depends on the transformations that make their views, and on whether the views show different positions.
package effectaug

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/knn"
	"github.com/semcon/semcon/sccore/methods"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/views"
)

// Name is the experiment's name.
const Name = "effect-aug"

// Config is the configuration of a cell.
type Config struct {
	methods.Config
	Recipe views.Recipe   `json:"recipe"`
	KNN    knn.Classifier `json:"knn"`
	// EvaluateEvery is the number of epochs between evaluations; the end of training is always evaluated.
	EvaluateEvery int `json:"evaluate_every" range:"[1,2^24]"`
	// EpochImages is the number of images of an epoch: a smaller training set is repeated to as many, so that short trainings on fewer images have as many steps.
	EpochImages int `json:"epoch_images,omitzero" range:"[0,2^24]"`
	// Shares is the number of shares that the training and the test images of a real dataset are cut into. Seed 0 has the first, and so on, so that intervals over
	// seeds have the images' share in them. 0 and 1 give all to every seed.
	Shares int `json:"shares,omitzero" range:"[0,2^20]"`
	// Validation is the share of each class of the training images that is held out. Above 0, accuracy is measured on these images, and
	// training and neighbours use the others. Settings are chosen so, without the test images. The same images of a share are held out in every run.
	Validation float64 `json:"validation,omitempty" range:"[0,0.5]"`
}

// Row is one row of Tab. effect_aug_full.
type Row struct {
	// Name lists the transformations, e.g. "crop+blur+gray+jitter+flip"; "same" stands for one crop shared by both views.
	Name                          string
	Crop                          views.CropMode
	Blur, Grayscale, Jitter, Flip bool
}

// Rows are the 13 rows in the order of the paper's table: five sets of transformations with independent crops, four without crops, and the same four
// with one crop for both views.
var Rows = func() []Row {
	var rows []Row
	for _, crop := range []views.CropMode{views.IndependentCrop, views.NoCrop, views.SameCrop} {
		for others := 4; others >= 0; others-- {
			if others == 0 && crop != views.IndependentCrop {
				continue // The views would be equal.
			}
			row := Row{Crop: crop, Blur: others >= 1, Grayscale: others >= 2, Jitter: others >= 3, Flip: others >= 4}
			row.Name = row.name()
			rows = append(rows, row)
		}
	}
	return rows
}()

func (r Row) name() string {
	var parts []string
	for _, part := range []struct {
		name string
		on   bool
	}{
		{"crop", r.Crop == views.IndependentCrop}, {"same", r.Crop == views.SameCrop},
		{"blur", r.Blur}, {"gray", r.Grayscale}, {"jitter", r.Jitter}, {"flip", r.Flip},
	} {
		if part.on {
			parts = append(parts, part.name)
		}
	}
	return strings.Join(parts, "+")
}

// Recipe returns a recipe with the row's transformations switched on, and all strengths unchanged.
func (r Row) Recipe(strengths views.Recipe) views.Recipe {
	strengths.Crop, strengths.Blur, strengths.Grayscale, strengths.Jitter, strengths.Flip = r.Crop, r.Blur, r.Grayscale, r.Jitter, r.Flip
	return strengths
}

// Transformations is the number of transformations that are on.
func (r Row) Transformations() int { return strings.Count(r.Name, "+") + 1 }

// Heads are the row's entries in the switch columns of figures.Paper("effect_aug_full").
func (r Row) Heads() []string {
	crop := map[views.CropMode]string{views.NoCrop: "", views.IndependentCrop: "1", views.SameCrop: "same"}[r.Crop]
	heads := []string{crop}
	for _, on := range []bool{r.Blur, r.Grayscale, r.Jitter, r.Flip} {
		if on {
			heads = append(heads, "1")
		} else {
			heads = append(heads, "")
		}
	}
	return heads
}

// The rows that the claims compare.
const (
	rowAll      = "crop+blur+gray+jitter+flip"
	rowNoCrop   = "blur+gray+jitter+flip"
	rowSameCrop = "same+blur+gray+jitter+flip"
)

// RowUntrained is the row of encoders with their initial weights, above which a training must come.
const RowUntrained = "untrained"

// MethodTitles are the names of the methods in the paper's table.
var MethodTitles = map[string]string{
	methods.SimCLR: "SimCLR", methods.BarlowTwins: "Barlow Twins", methods.MoCo: "MoCo", methods.SimSiam: "SimSiam",
}

// ProfileConfig returns the configuration of a method in a profile, before the row and --set, for real images if read is true, else for synthetic ones.
func ProfileConfig(profile study.Profile, method string, read bool) Config {
	config := Config{
		Config:        paperSettings(method),
		Recipe:        views.Default(),
		KNN:           knn.Classifier{K: 200, Temperature: 0.1},
		EvaluateEvery: 20,
	}
	switch profile {
	case study.Quick:
		quickSettings(&config.Config)
		config.EvaluateEvery = 10
		if read {
			config.Shares, config.EpochImages = 5, quickTrain
		}
	case study.Smoke:
		smokeSettings(&config.Config)
		config.EvaluateEvery = 1
	}
	return config
}

// paperSettings are the settings of appendix B.1: batch 512, 800 epochs, SGD with momentum 0.9 and weight decay 5e-4, and a learning rate for each
// method. The paper does not name the encoder, which here is ResNet-18, and does not give heads, temperatures and the queue; ours are close to those of the
// methods' authors.
func paperSettings(method string) methods.Config {
	s := methods.Config{Method: method, Encoder: "resnet18", Batch: 512, Epochs: 800, Momentum: 0.9, WeightDecay: 5e-4}
	switch method {
	case methods.SimCLR:
		s.LearningRate, s.ProjectorHidden, s.ProjectorDim, s.Temperature = 0.06, 512, 128, 0.5
	case methods.BarlowTwins:
		// The dimension and the scale of the loss are ours. The authors have no CIFAR-10 setting, and the plain sum over 2048² entries is too large for this
		// learning rate.
		s.LearningRate, s.ProjectorHidden, s.ProjectorDim, s.OffDiagonal, s.LossScale = 0.11, 2048, 2048, 0.005, 0.025
	case methods.MoCo:
		s.LearningRate, s.ProjectorHidden, s.ProjectorDim, s.Temperature = 0.08, 512, 128, 0.1
		s.Queue, s.TargetMomentum, s.NormGroups = 4096, 0.99, 8
	case methods.SimSiam:
		s.LearningRate, s.ProjectorHidden, s.ProjectorDim, s.PredictorHidden = 0.05, 2048, 2048, 512
	}
	return s
}

// quickSettings changes settings so that two CPU cores train in half a minute: 10 epochs of 10,000 images. They were chosen for each method by the accuracy
// with all transformations on held-out training images of CIFAR-10, over seeds 0 and 1 (docs/results.md). A short training needs smaller batches and heads
// than a long one.
func quickSettings(s *methods.Config) {
	s.Encoder, s.Epochs, s.ProjectorHidden, s.ProjectorDim = "conv4", 10, 128, 64
	switch s.Method {
	case methods.SimCLR:
		s.Batch, s.LearningRate, s.Temperature = 128, 0.12, 0.2
	case methods.BarlowTwins:
		s.Batch, s.LearningRate, s.ProjectorDim, s.OffDiagonal, s.LossScale = 64, 0.03, 128, 0.02, 0.1
	case methods.MoCo:
		s.Batch, s.Temperature, s.Queue, s.NormGroups = 64, 0.2, 1024, 1
	case methods.SimSiam:
		s.Batch, s.LearningRate, s.PredictorHidden = 64, 0.25, 32
	}
}

// smokeSettings changes settings so that the Go engine trains in seconds.
func smokeSettings(s *methods.Config) {
	s.Encoder, s.Batch, s.Epochs, s.ProjectorHidden, s.ProjectorDim = "conv4-w8", 32, 2, 32, 16
	switch s.Method {
	case methods.BarlowTwins:
		s.OffDiagonal, s.LossScale = 0.02, 0.1
	case methods.MoCo:
		s.Temperature, s.Queue, s.NormGroups = 0.2, 64, 4
	case methods.SimSiam:
		s.LearningRate, s.PredictorHidden = 0.1, 32
	}
}

// cells lists the cells of a profile in the order in which they run: all rows of a method with one seed before the next seed, so that the results of an
// interrupted study are comparable.
func cells(o study.Options, dataset string) ([]study.Cell[Config], error) {
	rows, seeds := Rows, o.SeedsOr(map[study.Profile]int{study.Quick: 5, study.Full: 3}[o.Profile])
	switch o.Profile {
	case study.Quick: // The rows that the claims compare.
		rows = slices.DeleteFunc(slices.Clone(rows), func(r Row) bool {
			return r.Crop != views.IndependentCrop && r.Name != rowNoCrop && r.Name != rowSameCrop
		})
	case study.Smoke:
		rows = slices.DeleteFunc(slices.Clone(rows), func(r Row) bool { return r.Name != rowAll && r.Name != rowNoCrop })
		seeds = o.SeedsOr(1)
	}
	var cells []study.Cell[Config]
	for _, method := range methods.Names {
		config := ProfileConfig(o.Profile, method, dataset != syntheticName)
		// "simclr.rate=0.1" is for one method, "rate=0.1" for all.
		if err := settings.Apply(&config, settings.For(o.Set, method, methods.Names)...); err != nil {
			return nil, err
		}
		if config.Method != method {
			return nil, fmt.Errorf("--set method=%s: choose methods with --only '*/%s/*/*'", config.Method, config.Method)
		}
		if config.Recipe != config.base().Recipe {
			return nil, errors.New("--set recipe: the rows switch the transformations; choose rows with --only '*/*/ROW/*'")
		}
		if err := settings.Check(config); err != nil {
			return nil, err
		}
		if dataset == syntheticName && config.Shares != 0 {
			return nil, errors.New("shares: synthetic images are drawn for each seed")
		}
		if len(cells) > 0 && config.Shares != cells[0].Config.Shares {
			return nil, errors.New("--set shares: all methods see the same images; set it for all")
		}
		if err := study.CheckSeeds(seeds, config.Shares); err != nil {
			return nil, err
		}
		for seed := range seeds {
			for _, row := range rows {
				c := study.Cell[Config]{Dataset: dataset, Path: []string{dataset, method, row.Name}, Seed: seed, Config: config}
				c.Config.Recipe = row.Recipe(config.Recipe)
				cells = append(cells, c)
			}
			cells = append(cells, study.Cell[Config]{Dataset: dataset, Path: []string{dataset, method, RowUntrained}, Seed: seed, Config: config})
		}
	}
	return cells, nil
}

// base returns the configuration with the default transformations, as before a row switches them.
func (c Config) base() Config {
	d := views.Default()
	c.Recipe.Crop, c.Recipe.Blur, c.Recipe.Grayscale, c.Recipe.Jitter, c.Recipe.Flip = d.Crop, d.Blur, d.Grayscale, d.Jitter, d.Flip
	return c
}

// profileConfig is the profile's configuration of the run behind a record. The row says which transformations are on.
func profileConfig(r study.Record, config Config) Config {
	c := ProfileConfig(r.Profile, config.Method, !strings.HasPrefix(r.Cell, syntheticName+"/"))
	row := config.Recipe
	c.Recipe.Crop, c.Recipe.Blur, c.Recipe.Grayscale, c.Recipe.Jitter, c.Recipe.Flip = row.Crop, row.Blur, row.Grayscale, row.Jitter, row.Flip
	return c
}

// Study is the experiment.
var Study = study.Spec[Config, Data]{
	Info: study.Info{
		Name:       Name,
		Title:      "Which transformations make good views, and does it matter that views show different positions?",
		Reproduces: "Tab. effect_aug, Tab. effect_aug_full; claims C1–C12",
		Labels:     []string{"effect_aug", "effect_aug_full"},
		Data:       "CIFAR-10 (quick), CIFAR-10 and CIFAR-100 (full), class folders, or synthetic objects without --data",
		Cost: map[study.Profile]string{
			study.Smoke: "under a minute on 2 cores",
			study.Quick: "60 to 90 minutes on 2 cores with 10,000 images",
			study.Full:  "312 trainings of ResNet-18 for 800 epochs: a GPU, or several with --only",
		},
	},
	Parts:    []string{"dataset", "method", "row", "seed"},
	Datasets: datasetNames,
	Cells:    cells,
	BySeed:   study.EachSeed,
	Open: func(o study.Options, dataset string, cells []study.Cell[Config]) (Data, error) {
		return Open(o, dataset, cells[0].Config.Shares, cells[0].Seed)
	},
	Numbers: func(d Data, c study.Cell[Config]) []study.Number {
		return []study.Number{{Row: c.Path[2], Column: column(d, c)}}
	},
	Steps: func(d Data, c study.Cell[Config]) int {
		if c.Path[2] == RowUntrained {
			return 0
		}
		return c.Config.Epochs * (max(c.Config.EpochImages, d.Train.Len()-d.Train.HeldOut(c.Config.Validation)) / c.Config.Batch)
	},
	NewWorker:     newWorker,
	Shares:        func(c study.Cell[Config]) string { return fmt.Sprintf("%s %+v", c.Dataset, c.Config.Config) },
	ProfileConfig: profileConfig,
	Common:        func(config, _ Config) Config { return config.base() },
	Tables:        func(r study.Results) []figures.Table { return Results{r}.tables() },
	Figures:       drawn,
}

// column is the table's column of a cell.
func column(d Data, c study.Cell[Config]) string {
	return d.title + "/" + MethodTitles[c.Config.Method]
}
