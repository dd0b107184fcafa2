// Package overdispersion is the experiment of Fig. over-disp: does aligning patches alone disperse their features as training goes on, and does
// concentration prevent it?
//
// In go synthetic scenes, photographs of PASCAL VOC in the real profile, or of COCO in full, and the two lines of the ablation that differ in patch concentration alone, both from one
// encoder. Out come records of how dense and image quality change along training, with curves, a table, the figure and claim C19. On photographs recall over patches
// stands for both, of a linear probe and of nearest neighbours, and on COCO linear segmentation. The figure's second half, mis-segmentation, is drawn by the experiment transfer from the
// encoders that the lines leave: --set weights.line2=FILE --set weights.line5=FILE.
package overdispersion

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
)

// Name is the experiment's name.
const Name = "over-dispersion"

// Rows of the records: lines of the ablation.
const (
	rowAlignment     = "2" // Patch alignment alone.
	rowConcentration = "5" // With patch concentration.
)

// lines are the rows' lines of the ablation.
var lines = map[string]sccore.Ablation{rowAlignment: sccore.Ablations[1], rowConcentration: sccore.Ablations[4]}

// rowTitles are the names of rows in tables and figures.
var rowTitles = map[string]string{rowAlignment: "patch alignment (line 2)", rowConcentration: "with concentration (line 5)"}

// columnContrast is the column of how much more similar patches of one class are than patches of two.
const columnContrast = "contrast"

// quality is what becomes better or worse along training. Its column has the value at the end, and another one the slope over the last third.
type quality struct{ column, evaluated, metric, title string }

func (q quality) slope() string { return q.column + " slope" }

// qualities are the qualities of patches and of images; on photographs both are of patches, by recall, or on COCO by segmentation.
func qualities(c recipe.Config) [2]quality {
	switch {
	case segments(c):
		return [2]quality{
			{"mIoU", "segmentation/miou", "mIoU", "linear segmentation, mIoU (%)"}, {"pixel accuracy", "segmentation/accuracy", "pixel accuracy", "linear segmentation, pixel accuracy (%)"},
		}
	case c.Recall.Size > 0:
		return [2]quality{{"recall", "recall/linear", "recall", "linear recall of patches (%)"}, {"k-NN recall", "recall/k-NN", "recall", "k-NN recall of patches (%)"}}
	}
	return [2]quality{{"mIoU", "probe/miou", "mIoU", "linear segmentation, mIoU (%)"}, {"k-NN", "knn/accuracy", "k-NN accuracy", "k-NN accuracy (%)"}}
}

// segments reports whether linear segmentation of COCO measures the lines: in the full profile.
func segments(c recipe.Config) bool { return c.Shares > 0 && c.Recall.Size == 0 }

// columns are the columns of the records.
func columns(c recipe.Config) []string {
	q := qualities(c)
	return []string{q[0].slope(), q[1].slope(), q[0].column, q[1].column, columnContrast}
}

// start is the cell that both lines begin from: the first stage of the experiment pretrain.
const start = "start"

// profileConfig returns the configuration of a profile before --set.
func profileConfig(profile study.Profile) recipe.Config {
	c := recipe.ProfileConfig(study.Quick, false)
	switch profile {
	case study.Smoke:
		c = recipe.ProfileConfig(study.Smoke, false)
		c.EvaluateEvery, c.First.Steps, c.Second.Steps = 1, 2, 6
	case study.Quick:
		c.EvaluateEvery, c.Second.Steps, c.Images = 50, 600, 512
	case study.Full: // 50 epochs of COCO's scenes, which the paper does not count, with a measurement after every second one.
		c = recipe.ProfileConfig(study.Full, true)
		c.Recall, c.WithoutControl = recipe.Recall{}, true
		c.Second.Steps = 50 * 118_287 / c.Second.Batch
		c.EvaluateEvery = c.Second.Steps / 25
	case study.Real:
		c = recipe.ProfileConfig(study.Real, true)
		c.EvaluateEvery = 100
		c.SetSteps(1200)
	}
	return c
}

// leastEvaluations is the least number of evaluations in a training: its last third has a slope then.
const leastEvaluations = 6

func config(o study.Options) (recipe.Config, error) {
	c := profileConfig(o.Profile)
	photographs := o.Profile == study.Real || o.Profile == study.Full
	if err := c.Configure(o, &c, photographs); err != nil {
		return c, err
	}
	for _, row := range []string{rowAlignment, rowConcentration} {
		if err := settings.Check(lines[row].Config(c.Second)); err != nil {
			return c, fmt.Errorf("line %s: second.%w", row, err)
		}
	}
	if c.Init != "" && !photographs {
		return c, errors.New("init: both lines begin from the first stage of this experiment")
	}
	if c.EvaluateEvery < 1 || c.Second.Steps < leastEvaluations*c.EvaluateEvery {
		return c, fmt.Errorf("evaluate_every %d: want 1 to %d, for at least %d evaluations in %d steps", c.EvaluateEvery, c.Second.Steps/leastEvaluations, leastEvaluations, c.Second.Steps)
	}
	return c, nil
}

func cells(o study.Options, dataset string) (cells []study.Cell[recipe.Config], err error) {
	c, err := config(o)
	if err != nil {
		return nil, err
	}
	for seed := range o.SeedsOr(map[study.Profile]int{study.Smoke: 1, study.Quick: 5, study.Real: 5, study.Full: 3}[o.Profile]) {
		for _, name := range []string{start, "line" + rowAlignment, "line" + rowConcentration} {
			if name == start && c.Init != "" {
				continue
			}
			cells = append(cells, study.Cell[recipe.Config]{Dataset: dataset, Path: []string{name}, Seed: seed, Config: c})
		}
	}
	return cells, nil
}

// rowOf returns the row of a cell, or start.
func rowOf(c study.Cell[recipe.Config]) string {
	if name := c.Path[0]; name != start {
		return name[len("line"):]
	}
	return start
}

// Study is the experiment.
var Study = study.Spec[recipe.Config, recipe.Data]{
	Info: study.Info{
		Name:       Name,
		Title:      "Does aligning patches alone disperse their features as training goes on?",
		Reproduces: "Fig. over-disp; claim C19",
		Labels:     []string{"over-disp"},
		Data:       "synthetic scenes and objects; with --data PASCAL VOC in real, and COCO in full",
		Reads:      []string{"voc2012", "imagenet", "coco"},
		Cost: map[study.Profile]string{
			study.Smoke: "a minute on 2 cores", study.Quick: "about 35 minutes on 2 cores", study.Full: "twice ViT-S/16, 23k steps of 256 images, and 25 linear segmentations of COCO, for each of three seeds: a day on a GPU",
			study.Real: "about 12 hours on 2 cores",
		},
	},
	Parts:     []string{"line", "seed"},
	DataBySet: true,
	Datasets: func(o study.Options) (names, missing []string, err error) {
		if o.Profile == study.Real || o.Profile == study.Full {
			return recipe.DatasetNames(o)
		}
		if o.Data != "" {
			return nil, nil, study.Absent(fmt.Sprintf("%s draws its images in the %s profile: leave out --data", Name, o.Profile))
		}
		return []string{""}, nil, nil
	},
	Cells: cells,
	Open: func(o study.Options, _ string, cells []study.Cell[recipe.Config]) (recipe.Data, error) {
		d, err := recipe.Open(o, cells[0].Config, cells[0].Seed)
		if err == nil && segments(cells[0].Config) {
			var coco evaluation.Data
			coco, err = evaluation.Source{Dir: o.Data, Dataset: "coco"}.Segmentation(datasets.Train, datasets.Test)
			d.Train.Objects, d.Annotated = nil, [2]*datasets.Segmentation{coco.Train, coco.Test}
		}
		return d, err
	},
	BySeed: study.EachSeed,
	Numbers: func(_ recipe.Data, c study.Cell[recipe.Config]) (numbers []study.Number) {
		if rowOf(c) == start {
			return nil
		}
		for _, column := range columns(c.Config) {
			numbers = append(numbers, study.Number{Row: rowOf(c), Column: column})
		}
		return numbers
	},
	Steps:     training.Steps,
	FLOPs:     training.FLOPs,
	NewWorker: training.NewWorker,
	Shares:    training.Shares,
	Needs: func(c study.Cell[recipe.Config]) []study.Cell[recipe.Config] {
		if rowOf(c) == start || c.Config.Init != "" {
			return nil
		}
		return []study.Cell[recipe.Config]{{Path: []string{start}, Seed: c.Seed, Config: c.Config}}
	},
	Folder: func(d recipe.Data, c study.Cell[recipe.Config]) string { // The cells of a seed share a folder.
		return filepath.Join("cells", fmt.Sprintf("seed%d-%s", c.Seed, study.Hash(study.EncodeConfig(c.Config), []byte(d.Identity()))), c.Path[0])
	},
	Ran: func(c study.Cell[recipe.Config]) (ran recipe.Config, derived bool) {
		ran = c.Config
		if derived = rowOf(c) != start; derived {
			ran.Second = training.Stage(c).Config
		}
		return ran, derived
	},
	ProfileConfig: func(r study.Record, config recipe.Config) recipe.Config {
		c := profileConfig(r.Profile)
		if r.Profile == study.Real || r.Profile == study.Full {
			c.Init = config.Init
		}
		return c
	},
	AcrossColumns: true,
	Tables:        tables,
	Figures:       drawn,
}
