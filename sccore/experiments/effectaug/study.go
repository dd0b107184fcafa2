package effectaug

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/methods"
	"github.com/semcon/semcon/sccore/views"
)

// EffectAug is the name of the augmentation study (Tab. effect_aug and effect_aug_full): how the k-NN accuracy of four image-level
// methods depends on which transformations make their views, and on whether the views show different positions.
const EffectAug = "effect-aug"

// EffectAugConfig is what one run of the study is made from.
type EffectAugConfig struct {
	methods.Settings
	Recipe views.Recipe   `json:"recipe"`
	KNN    evaluation.KNN `json:"knn"`
	// EvaluateEvery is the number of epochs between evaluations; the end of training is always evaluated.
	EvaluateEvery int `json:"evaluate_every"`
}

// EffectAugRow is one row of Tab. effect_aug_full.
type EffectAugRow struct {
	// Name lists the transformations, e.g. "crop+blur+gray+jitter+flip"; "same" stands for one crop shared by both views.
	Name                          string
	Crop                          views.CropMode
	Blur, Grayscale, Jitter, Flip bool
}

// EffectAugRows are the 13 rows, in the order of the paper's table: five subsets of transformations with independent crops, four
// without crops, and the same four with one crop for both views.
var EffectAugRows = func() []EffectAugRow {
	var rows []EffectAugRow
	for _, crop := range []views.CropMode{views.IndependentCrop, views.NoCrop, views.SameCrop} {
		for others := 4; others >= 0; others-- {
			if others == 0 && crop != views.IndependentCrop {
				continue // Nothing would differ between the views.
			}
			row := EffectAugRow{Crop: crop, Blur: others >= 1, Grayscale: others >= 2, Jitter: others >= 3, Flip: others >= 4}
			row.Name = row.name()
			rows = append(rows, row)
		}
	}
	return rows
}()

func (r EffectAugRow) name() string {
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

// Recipe switches the row's transformations on in a recipe, whose strengths stay.
func (r EffectAugRow) Recipe(strengths views.Recipe) views.Recipe {
	strengths.Crop, strengths.Blur, strengths.Grayscale, strengths.Jitter, strengths.Flip = r.Crop, r.Blur, r.Grayscale, r.Jitter, r.Flip
	return strengths
}

// Transformations is the number of transformations that are on.
func (r EffectAugRow) Transformations() int { return strings.Count(r.Name, "+") + 1 }

// Heads are the row's entries in the switch columns of figures.Paper("effect_aug_full").
func (r EffectAugRow) Heads() []string {
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
	rowCropOnly = "crop"
)

// methodTitles are the methods as the paper's table heads them.
var methodTitles = map[string]string{
	methods.SimCLR: "SimCLR", methods.BarlowTwins: "Barlow Twins", methods.MoCo: "MoCo", methods.SimSiam: "SimSiam",
}

// effectAugConfig returns the configuration of a method in a profile, before row and --set.
func effectAugConfig(profile Profile, method string) EffectAugConfig {
	config := EffectAugConfig{
		Settings:      paperSettings(method),
		Recipe:        views.Default(),
		KNN:           evaluation.KNN{K: 200, Temperature: 0.1},
		EvaluateEvery: 20,
	}
	switch profile {
	case Quick:
		quickSettings(&config.Settings)
		config.EvaluateEvery = 10
	case Smoke:
		quickSettings(&config.Settings)
		config.Encoder, config.Batch, config.Epochs, config.WarmupEpochs = "conv4-w8", 32, 2, 0
		config.ProjectorHidden, config.ProjectorDim = 32, 16
		if method == methods.MoCo {
			config.Queue, config.NormGroups = 64, 4
		}
		config.EvaluateEvery = 1
	}
	return config
}

// paperSettings are those of appendix B.1: ResNet-18, batch 512, 800 epochs, SGD with momentum 0.9 and decay 5e-4, and a learning rate for
// each method. Heads, temperatures and the queue are not in the paper; they are our choice, near what the methods' authors use.
func paperSettings(method string) methods.Settings {
	s := methods.Settings{Method: method, Encoder: "resnet18", Batch: 512, Epochs: 800, Momentum: 0.9, WeightDecay: 5e-4}
	switch method {
	case methods.SimCLR:
		s.Rate, s.ProjectorHidden, s.ProjectorDim, s.Temperature = 0.06, 512, 128, 0.5
	case methods.BarlowTwins:
		// The dimension and the factor of the loss are ours: the authors have no CIFAR-10 setting, and the plain sum over 2048²
		// entries is too steep for this rate.
		s.Rate, s.ProjectorHidden, s.ProjectorDim, s.OffDiagonal, s.LossScale = 0.11, 2048, 2048, 0.005, 0.025
	case methods.MoCo:
		s.Rate, s.ProjectorHidden, s.ProjectorDim, s.Temperature = 0.08, 512, 128, 0.1
		s.Queue, s.TargetMomentum, s.NormGroups = 4096, 0.99, 8
	case methods.SimSiam:
		s.Rate, s.ProjectorHidden, s.ProjectorDim, s.PredictorHidden = 0.05, 2048, 2048, 512
	}
	return s
}

// quickSettings makes settings that two CPU cores train in a minute or two. They were chosen for the accuracy with all transformations, one
// method at a time, on seed 0 of the real sample; a short training wants smaller batches and heads than a long one, and MoCo a target and
// a queue that a few thousand steps can follow. Its batches of 64 are too small to split for BatchNorm.
func quickSettings(s *methods.Settings) {
	s.Encoder, s.ProjectorHidden, s.ProjectorDim = "conv4", 128, 64
	switch s.Method {
	case methods.SimCLR:
		s.Batch, s.Epochs = 128, 40
	case methods.BarlowTwins:
		s.Batch, s.Epochs, s.ProjectorDim, s.OffDiagonal, s.LossScale = 128, 50, 128, 0.02, 0.1
	case methods.MoCo:
		s.Batch, s.Epochs, s.Temperature, s.Queue, s.NormGroups = 64, 60, 0.2, 1024, 1
	case methods.SimSiam:
		s.Batch, s.Epochs, s.Rate, s.PredictorHidden = 64, 50, 0.1, 32
	}
}

// cell is one run of the study.
type cell struct {
	dataset string // "cifar10", "cifar100", "synthetic" or "images"
	method  string
	row     EffectAugRow
	seed    int
	config  EffectAugConfig
}

// effectAugParts are the parts of a cell's name.
var effectAugParts = []string{"dataset", "method", "row", "seed"}

// name is how --only addresses a cell: dataset/method/row/seedN.
func (c cell) name() string {
	return fmt.Sprintf("%s/%s/%s/seed%d", c.dataset, c.method, c.row.Name, c.seed)
}

// effectAugCells lists the runs of a profile in the order in which they are run: all rows of a method with one seed before the next
// seed, so that a stopped study can be read.
func effectAugCells(options Options, dataset string) ([]cell, error) {
	names, rows, seeds := methods.Names, EffectAugRows, 3
	switch options.Profile {
	case Quick: // What claims C1 to C8 compare, and crops alone.
		rows = slices.DeleteFunc(slices.Clone(rows), func(r EffectAugRow) bool {
			return !slices.Contains([]string{rowAll, rowNoCrop, rowSameCrop, rowCropOnly}, r.Name)
		})
	case Smoke:
		rows = slices.DeleteFunc(slices.Clone(rows), func(r EffectAugRow) bool { return r.Name != rowAll && r.Name != rowNoCrop })
		seeds = 1
	}
	if options.Seeds > 0 {
		seeds = options.Seeds
	}
	var cells []cell
	for _, method := range names {
		config := effectAugConfig(options.Profile, method)
		for _, assignment := range options.Set {
			// "simclr.rate=0.1" is for one method, "rate=0.1" for all.
			if head, rest, ok := strings.Cut(assignment, "."); ok && slices.Contains(methods.Names, head) {
				if head != method {
					continue
				}
				assignment = rest
			}
			if err := applySet(&config, assignment); err != nil {
				return nil, err
			}
		}
		if config.Method != method {
			return nil, fmt.Errorf("--set method=%s: choose methods with --only '*/%s/*/*'", config.Method, config.Method)
		}
		if config.Recipe != config.base().Recipe {
			return nil, errors.New("--set recipe: the rows switch the transformations; choose rows with --only '*/*/ROW/*'")
		}
		if err := config.check(); err != nil {
			return nil, err
		}
		for seed := range seeds {
			for _, row := range rows {
				c := cell{dataset: dataset, method: method, row: row, seed: seed, config: config}
				c.config.Recipe = row.Recipe(config.Recipe)
				cells = append(cells, c)
			}
		}
	}
	return cells, nil
}

// base is the configuration with the transformations' switches, which are the rows', as they are before a row sets them.
func (c EffectAugConfig) base() EffectAugConfig {
	d := views.Default()
	c.Recipe.Crop, c.Recipe.Blur, c.Recipe.Grayscale, c.Recipe.Jitter, c.Recipe.Flip = d.Crop, d.Blur, d.Grayscale, d.Jitter, d.Flip
	return c
}

// check returns an error that names the first value out of range, before anything is read or trained.
func (c EffectAugConfig) check() error {
	if err := c.Settings.Check(); err != nil {
		return err
	}
	if c.EvaluateEvery < 1 {
		return fmt.Errorf("evaluate_every %d is not positive", c.EvaluateEvery)
	}
	if err := c.KNN.Check(); err != nil {
		return err
	}
	return c.Recipe.Check()
}
