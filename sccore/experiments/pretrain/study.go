// Package pretrain trains with the paper's method in two stages ("Training pipeline"): alignment first, then the full method. Other experiments evaluate
// its encoders, and some train with its stages.
package pretrain

import (
	"fmt"
	"path/filepath"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/study"
)

// Name is the experiment's name.
const Name = recipe.Pretraining

func cells(o study.Options, dataset string) ([]study.Cell[recipe.Config], error) {
	config := recipe.ProfileConfig(o.Profile, dataset == recipe.Images)
	if err := config.Configure(o, &config, dataset == recipe.Images); err != nil {
		return nil, err
	}
	seeds := o.SeedsOr(map[study.Profile]int{study.Smoke: 1, study.Quick: 5, study.Real: 5, study.Full: 3}[o.Profile])
	if err := study.CheckSeeds(seeds, config.Shares); err != nil {
		return nil, err
	}
	var cells []study.Cell[recipe.Config]
	for seed := range seeds {
		cells = append(cells, study.Cell[recipe.Config]{Dataset: dataset, Path: []string{dataset}, Seed: seed, Config: config})
	}
	return cells, nil
}

// Study is the experiment.
var Study = study.Spec[recipe.Config, recipe.Data]{
	Info: study.Info{
		Name:       Name,
		Title:      "Does training with the paper's method improve features, from scratch in two stages or from a checkpoint?",
		Reproduces: "\"Training pipeline\"; the encoders that other experiments evaluate",
		Data:       "synthetic scenes and objects; with --data images of ImageNet (imagenet/) and COCO (coco/), in real images of PASCAL VOC",
		Reads:      []string{"imagenet", "coco"},
		Cost: map[study.Profile]string{
			study.Smoke: "seconds",
			study.Quick: "about 20 minutes on 2 cores; on photographs five hours, or 40 minutes from one start by --set init=FILE",
			study.Real:  "about two hours and a half on 2 cores",
			study.Full:  "ViT-S/16, 100k steps of 256 images, and again for the control: 6e18 FLOP, hours on a GPU for each of three seeds",
		},
	},
	Parts:    []string{"dataset", "seed"},
	Datasets: recipe.DatasetNames,
	Missing:  recipe.Missing,
	Cells:    cells,
	Caches:   true,
	Open: func(o study.Options, _ string, cells []study.Cell[recipe.Config]) (recipe.Data, error) {
		return recipe.Open(o, cells[0].Config, cells[0].Seed)
	},
	BySeed: study.EachSeed,
	Numbers: func(d recipe.Data, c study.Cell[recipe.Config]) (numbers []study.Number) {
		rows := []string{recipe.RowRandom}
		if c.Config.Init != "" {
			rows = append(rows, recipe.RowInit)
		}
		for _, stage := range stagesOf(c.Config) {
			rows = append(rows, rowsOf[stage.Name])
		}
		for _, row := range rows {
			numbers = append(numbers, d.RecallNumbers(row)...)
			for _, m := range measuresOf(d, c.Config) {
				m.Row = row
				numbers = append(numbers, m.Number)
			}
		}
		return numbers
	},
	Folder: func(d recipe.Data, c study.Cell[recipe.Config]) string {
		trained := c.Config
		trained.Recall = recipe.Recall{} // It measures what is trained, and does not change it.
		hash := study.Hash(study.EncodeConfig(trained), []byte(d.Identity()))
		return filepath.Join("cells", filepath.Join(c.Path...), fmt.Sprintf("seed%d-%s", c.Seed, hash))
	},
	Steps: func(_ recipe.Data, c study.Cell[recipe.Config]) (steps int) {
		for _, stage := range stagesOf(c.Config) {
			steps += stage.Steps()
		}
		return steps
	},
	FLOPs: func(c study.Cell[recipe.Config]) (flops float64) {
		for _, stage := range stagesOf(c.Config) {
			flops += stage.FLOPs()
		}
		return flops
	},
	NewWorker:     newWorker,
	ProfileConfig: recipe.Defaults,
	Tables:        func(r study.Results) []figures.Table { return []figures.Table{table(r)} },
	Figures:       drawn,
}
