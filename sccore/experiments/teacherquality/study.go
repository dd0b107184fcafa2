package teacherquality

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/experiments/pretrain"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
)

// Name is the experiment's name.
const Name = "teacher-quality"

// Config is the configuration of a cell.
type Config struct {
	Loss    string  `json:"loss"`    // "start" for the first stage alone, "alignment", or alignment with "cotap" or "bce".
	Lambda  float64 `json:"lambda"`  // λ2 of "cotap" and "bce".
	Teacher string  `json:"teacher"` // The source of their q: "head", the target branch as in the paper, or "labels".
	AUC     float64 `json:"auc"`     // AUC of q from labels: 0.5 is chance, 1 the true labels.

	First  sccore.Config         `json:"first"`  // The stage of both alignments, which makes the checkpoint.
	Second sccore.Config         `json:"second"` // The stage that is studied, before Loss sets its L_sc.
	Images int                   `json:"images"` // Number of training scenes, and of training objects; there are half as many test scenes.
	Probe  evaluation.PatchProbe `json:"probe"`
	Pairs  int                   `json:"pairs"` // Number of batches whose patch pairs measure the real teacher's AUC.
}

// Values of Loss without patch concentration.
const (
	lossStart     = "start"
	lossAlignment = "alignment"
)

// profileConfig returns the configuration of a profile before --set and before a cell sets its condition.
func profileConfig(profile study.Profile) Config {
	size := study.Quick // The paper does not train on labels, so the full profile has more runs but no larger ones.
	if profile == study.Smoke {
		size = study.Smoke
	}
	trained := pretrain.ProfileConfig(size)
	c := Config{First: trained.First, Second: trained.Second, Images: 512, Probe: trained.Probe, Pairs: 4}
	for _, s := range []*sccore.Config{&c.First, &c.Second} {
		s.Prototypes, s.Lambdas = 0, losses.Lambdas{PatchAlignment: 1}
		s.TargetMomentum = 0.95 // A faster target branch is a better teacher after 500 steps.
		s.MetricsEvery = 1000
	}
	c.First.Lambdas.ImageAlignment = 1
	if profile == study.Smoke {
		c.First.Steps, c.Second.Steps, c.Images, c.Pairs = 4, 4, 24, 1
	} else {
		c.Second.Steps, c.Second.WarmupSteps = 200, 20
		c.Probe.Steps = 500
	}
	return c
}

// second is the configuration of the cell's second stage.
func (c Config) second() sccore.Config {
	s := c.Second
	if c.Loss == lossStart || c.Loss == lossAlignment {
		return s
	}
	s.PatchConcentration, s.Lambdas.PatchConcentration = c.Loss, c.Lambda
	s.Correspondences.From = c.Teacher
	if c.Teacher == sccore.FromLabels {
		// Two pairs lose their order only if noise replaces both labels: 1 − AUC = noise²/2.
		s.Correspondences.Noise = math.Sqrt(2 * (1 - c.AUC))
	}
	return s
}

// steps is the number of steps of the cell's second stage.
func (c Config) steps() int {
	if c.Loss == lossStart {
		return 0
	}
	return c.Second.Steps
}

// check returns an error that names the first value out of range.
func (c Config) check() error {
	if err := c.First.Check(); err != nil {
		return fmt.Errorf("first.%w", err)
	}
	if err := c.second().Check(); err != nil {
		return fmt.Errorf("second.%w", err)
	}
	switch {
	case c.First.Encoder != c.Second.Encoder || c.First.PatchHead != c.Second.PatchHead || c.First.ImageSize != c.Second.ImageSize:
		return errors.New("encoder, patch_head or canvas of the first and the second stage differ")
	case c.First.Lambdas.PatchAlignment == 0 || c.Second.Lambdas.PatchAlignment == 0:
		return errors.New("lambdas.patch_alignment 0: both stages align patches")
	case c.First.Lambdas.PatchConcentration+c.First.Lambdas.ImageConcentration+c.Second.Lambdas.PatchConcentration+c.Second.Lambdas.ImageConcentration > 0 &&
		(c.Loss == lossStart || c.Loss == lossAlignment):
		return errors.New("lambdas.patch_concentration and image_concentration: the cells set them")
	case c.Images < c.First.Batch || c.Images < c.Second.Batch:
		return fmt.Errorf("images %d is below the batch size", c.Images)
	}
	return cmp.Or(settings.Between("pairs", c.Pairs, 1, 1024), synthetic.Check("images", c.Images, "second.canvas", c.Second.ImageSize), c.Probe.Check())
}

// shared is the part of the configuration that must be equal for runs to be compared.
func (c Config) shared() Config {
	c.Loss, c.Lambda, c.Teacher, c.AUC = "", 0, "", 0
	return c
}

// teacher is the part of a cell's name for the quality of its q.
func (c Config) teacher() string {
	switch {
	case c.Loss == lossStart || c.Loss == lossAlignment:
		return "none"
	case c.Teacher == sccore.FromLabels:
		return fmt.Sprintf("auc%g", c.AUC)
	}
	return "real"
}

// row names the cell's condition in records.
func (c Config) row() string {
	return fmt.Sprintf("%s/lambda%g/%s", c.Loss, c.Lambda, c.teacher())
}

// compared lists the patch-concentration losses, and lambdas their weights. The quick profile runs the smaller weight for CoTAP alone.
var (
	compared = []string{sccore.WithCoTAP, sccore.WithBCE}
	lambdas  = map[study.Profile]map[string][]float64{
		study.Smoke: {sccore.WithCoTAP: {10}, sccore.WithBCE: {10}},
		study.Quick: {sccore.WithCoTAP: {1, 10}, sccore.WithBCE: {10}},
		study.Full:  {sccore.WithCoTAP: {1, 3, 10}, sccore.WithBCE: {1, 3, 10}},
	}
	aucs = map[study.Profile][]float64{study.Smoke: {1}, study.Quick: {1, 0.85, 0.7}, study.Full: {1, 0.9, 0.8, 0.7, 0.6}}
)

// rows lists the conditions of a profile: start and alignment, then for each loss and λ2 the teachers from the best down to the real one.
func rows(profile study.Profile) (all []Config) {
	all = append(all, Config{Loss: lossStart}, Config{Loss: lossAlignment})
	for _, loss := range compared {
		for _, lambda := range lambdas[profile][loss] {
			for _, auc := range aucs[profile] {
				all = append(all, Config{Loss: loss, Lambda: lambda, Teacher: sccore.FromLabels, AUC: auc})
			}
			all = append(all, Config{Loss: loss, Lambda: lambda, Teacher: sccore.FromHead})
		}
	}
	return all
}

// cells lists the cells of a profile, all cells of one seed before the next seed.
func cells(o study.Options, _ string) ([]study.Cell[Config], error) {
	base := profileConfig(o.Profile)
	if err := settings.Apply(&base, o.Set...); err != nil {
		return nil, err
	}
	if base != base.shared() {
		return nil, errors.New("--set loss, lambda, teacher or auc: choose runs with --only 'cotap/lambda10/auc1'")
	}
	var cells []study.Cell[Config]
	for seed := range o.SeedsOr(map[study.Profile]int{study.Smoke: 1, study.Quick: 5, study.Full: 10}[o.Profile]) {
		for _, row := range rows(o.Profile) {
			c := base
			c.Loss, c.Lambda, c.Teacher, c.AUC = row.Loss, row.Lambda, row.Teacher, row.AUC
			if err := c.check(); err != nil {
				return nil, err
			}
			cells = append(cells, study.Cell[Config]{Path: []string{c.Loss, fmt.Sprintf("lambda%g", c.Lambda), c.teacher()}, Seed: seed, Config: c})
		}
	}
	return cells, nil
}

// startPath is the path of the cells that train the first stage. They are never selected; the other cells of their seed start from them.
const startPath = "first stage"

func isStart(c study.Cell[Config]) bool { return c.Path[0] == startPath }

// shares names the cells that share a compiled step: those with the same loss and the same source of q, whatever their λ2, AUC and seed.
func shares(c study.Cell[Config]) string {
	switch {
	case isStart(c):
		return startPath
	case slices.Contains(compared, c.Config.Loss):
		return c.Config.Loss + " " + c.Config.Teacher
	}
	return lossAlignment
}

// Study is the experiment.
var Study = study.Spec[Config, data]{
	Info: study.Info{
		Name:       Name,
		Title:      "How good must the teacher's correspondences be for patch concentration to help?",
		Reproduces: "\"Patch correspondence distillation\"; explains what claim C16 needs",
		Data:       "synthetic scenes and objects, whose labels give teachers of known quality",
		Cost: map[study.Profile]string{
			study.Smoke: "seconds",
			study.Quick: "about 35 minutes on 2 quiet cores",
			study.Full:  "about 5 hours on 2 cores: ten seeds, finer steps",
		},
	},
	Parts:  []string{"loss", "lambda", "teacher", "seed"},
	Cells:  cells,
	Open:   open,
	BySeed: func(string) bool { return true },
	Numbers: func(_ data, c study.Cell[Config]) []study.Number {
		if isStart(c) {
			return nil
		}
		return []study.Number{{Row: c.Config.row(), Column: pretrain.ColumnMIoU}}
	},
	Steps: func(_ data, c study.Cell[Config]) int {
		if isStart(c) {
			return c.Config.First.Steps
		}
		return c.Config.steps()
	},
	NewWorker: newWorker,
	Shares:    shares,
	Needs: func(c study.Cell[Config]) []study.Cell[Config] {
		if isStart(c) {
			return nil
		}
		return []study.Cell[Config]{{Path: []string{startPath}, Seed: c.Seed, Config: c.Config.shared()}}
	},
	Folder: func(d data, c study.Cell[Config]) string {
		if isStart(c) {
			return startFolder(d, c.Config, c.Seed)
		}
		return filepath.Join("cells", filepath.Join(c.Path...), fmt.Sprintf("seed%d-%s", c.Seed, c.Hash()))
	},
	ProfileConfig: func(r study.Record, config Config) Config {
		c := profileConfig(r.Profile)
		c.Loss, c.Lambda, c.Teacher, c.AUC = config.Loss, config.Lambda, config.Teacher, config.AUC
		return c
	},
	Common: func(config, _ Config) Config { return config.shared() },
	Tables: func(r study.Results) ([]figures.Table, error) { return []figures.Table{Results{r}.table()}, nil },
}
