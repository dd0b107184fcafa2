// Package extendedtraining is the experiment on the fairness of the paper's comparison ("Effects of Extended Training and Dataset"): DINO, iBOT and Mugs go on
// with their own losses, on objects, on scenes and on the mixture of both, beside the method and its alignment losses alone, all from the same encoder, for
// the same number of steps and images.
//
// A baseline is trained from scratch, or read from a file. The next arm gets a case in newWorker and rows in the tables of its file.
package extendedtraining

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/recipe/maintable"
	"github.com/semcon/semcon/sccore/selfdistillation"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/weights"
)

// Name is the experiment's name.
const Name = "extended-training"

// Config is the configuration that all arms of a baseline share: First are the method's alignment losses alone, Second is the method, and both start from
// the baseline. The rest of maintable.Config measures encoders; its Init and Ignore are not used.
type Config struct {
	maintable.Config
	Start selfdistillation.Config `json:"start"` // The baseline from scratch.
	Own   selfdistillation.Config `json:"own"`   // The baseline continued.

	Weights       string `json:"weights,omitzero"`        // A file of weights that replaces the training start, such as the baseline's official checkpoint.
	WeightsSHA256 string `json:"weights_sha256,omitzero"` // SHA-256 of the file of weights, which the program fills in.
}

// OmitPaths omits the path of the file of weights.
func (c *Config) OmitPaths() { c.Weights = "" }

// The rows: what the arms of a baseline start from, and the arms.
const (
	rowStart     = "start"
	rowObjects   = "own-objects"
	rowScenes    = "own-scenes"
	rowMixture   = "own-mixture"
	rowAlignment = "alignment"
	rowMethod    = "method"
)

// titles are the names of baselines in tables and figures.
var titles = map[string]string{selfdistillation.DINO: "DINO", selfdistillation.IBOT: "iBOT", selfdistillation.Mugs: "Mugs"}

// ProfileConfig returns the configuration of a baseline in a profile before --set, for real images if read is true, else for synthetic ones.
func ProfileConfig(profile study.Profile, read bool, baseline string) Config {
	c := Config{Config: maintable.ProfileConfig(profile, read), Start: selfdistillation.Default(baseline), Own: selfdistillation.Default(baseline)}
	c = study.Configured(Name, c, string(profile), "method")
	c.First = sccore.Ablations[2].Config(c.Second)
	method, own := c.Second, &c.Own
	own.Batch, own.Steps, own.WarmupSteps, own.LearningRate, own.FinalLearningRate = method.Batch, method.Steps, method.WarmupSteps, method.LearningRate, method.FinalLearningRate
	own.TargetMomentum, own.FinalTargetMomentum = method.TargetMomentum, method.FinalTargetMomentum
	if profile == study.Full {
		// The authors' schedules are at their ends, and would begin anew: rate, momentum and steps are the method's, so that the arms are alike; temperature
		// and decay are what the authors end with. A full checkpoint gives both branches and the heads; with a file of an encoder heads are new. Views are the authors', with
		// ten local crops beside the method's four.
		own.WeightDecay, own.EpochSteps = own.FinalWeightDecay, 1_281_167/method.Batch
	} else { // The baseline is as small as the method. Epochs count the synthetic images.
		own.Encoder, own.Views, own.ImageSize, own.EpochSteps = method.Encoder, method.Views, method.ImageSize, max(1, c.Images/method.Batch)
		own.WeightDecay, own.FinalWeightDecay = method.WeightDecay, method.FinalWeightDecay
		c.Start = *own
	}
	return study.Configured(Name, c, string(profile), baseline, "baseline")
}

// check returns an error that names the first value out of range.
func (c Config) check(profile study.Profile, read bool) error {
	if err := c.Config.Check(profile, read); err != nil {
		return err
	}
	err := settings.CheckGroup("own", c.Own)
	if profile != study.Full { // There the start is the authors' run.
		err = cmp.Or(settings.CheckGroup("start", c.Start), err)
	}
	switch {
	case err != nil:
		return err
	case c.Init != "" || c.Ignore != "":
		return errors.New("init: each baseline has a file of its own: --set dino.weights=FILE")
	case c.First.Steps != c.Second.Steps || c.Own.Steps != c.Second.Steps:
		return fmt.Errorf("first.steps %d, second.steps %d, own.steps %d: all arms take the same number of steps", c.First.Steps, c.Second.Steps, c.Own.Steps)
	case c.First.Batch != c.Second.Batch || c.Own.Batch != c.Second.Batch:
		return fmt.Errorf("first.batch %d, second.batch %d, own.batch %d: all arms take the same number of images", c.First.Batch, c.Second.Batch, c.Own.Batch)
	case c.Own.Encoder != c.Second.Encoder || c.First.Encoder != c.Second.Encoder || c.Weights == "" && c.Start.Encoder != c.Own.Encoder:
		return fmt.Errorf("start.encoder %s, own.encoder %s, first.encoder %s, second.encoder %s: want one encoder", c.Start.Encoder, c.Own.Encoder, c.First.Encoder, c.Second.Encoder)
	case c.EvaluateEvery == 0:
		return errors.New("evaluate_every 0: the curves need evaluations")
	}
	return nil
}

// baselineOf is a part of a cell's path: baseline/row, or images/baseline/row.
func baselineOf(c study.Cell[Config]) string { return c.Path[len(c.Path)-2] }

// cells lists the cells of a call: all arms of a baseline and a seed before the next baseline.
func cells(o study.Options, dataset string) (cells []study.Cell[Config], err error) {
	defer try.Handle(&err)
	read, configs := dataset == recipe.Images, map[string]Config{}
	for _, baseline := range selfdistillation.Names {
		c := ProfileConfig(o.Profile, read, baseline)
		// "dino.own.rate=0.1" is for one baseline, "own.rate=0.1" for all.
		try.E(settings.Apply(&c, settings.For(o.Set, baseline, selfdistillation.Names)...))
		if c.Own.Method != baseline || c.Start.Method != baseline {
			return nil, fmt.Errorf("--set own.method=%s, start.method=%s: choose baselines with --only '%s'", c.Own.Method, c.Start.Method, c.Own.Method)
		}
		if o.Profile == study.Full && c.Weights == "" {
			continue
		}
		try.E(c.check(o.Profile, read))
		if c.WeightsSHA256 = ""; c.Weights != "" {
			if c.WeightsSHA256, err = weights.Digest(c.Weights); err != nil {
				return nil, fmt.Errorf("--set %s.weights=%s: %w", baseline, c.Weights, err)
			}
		}
		configs[baseline] = c
	}
	if len(configs) == 0 {
		return nil, errors.New("the full profile starts from official checkpoints: --set dino.weights=FILE, ibot.weights=FILE or mugs.weights=FILE")
	}
	for seed := range study.Seeds(Name, o) {
		for _, baseline := range selfdistillation.Names {
			if config, ok := configs[baseline]; ok {
				for _, row := range study.TableOf(Name, "values").Rows {
					cells = append(cells, maintable.NewCell(dataset, seed, config, baseline, row.Key))
				}
			}
		}
	}
	return cells, nil
}

// needs returns the cell that an arm starts from.
func needs(c study.Cell[Config]) []study.Cell[Config] {
	if c.Row == rowStart {
		return nil
	}
	return []study.Cell[Config]{maintable.NewCell(c.Dataset, c.Seed, c.Config, baselineOf(c), rowStart)}
}

// steps is the number of steps that a cell trains.
func steps(_ maintable.Data, c study.Cell[Config]) int {
	switch {
	case c.Row != rowStart:
		return c.Config.Own.Steps
	case c.Config.Weights != "":
		return 0
	}
	return c.Config.Start.Steps
}

// folder is the folder of a cell's files. The cells of a baseline and a seed share a folder, whose name depends on the training but not on the evaluation.
func folder(d maintable.Data, c study.Cell[Config]) string {
	trained := Config{Start: c.Config.Start, Own: c.Config.Own, WeightsSHA256: c.Config.WeightsSHA256}
	trained.First, trained.Second, trained.Images = c.Config.First, c.Config.Second, c.Config.Images
	name := fmt.Sprintf("seed%d-%s", c.Seed, study.Hash(study.EncodeConfig(trained), []byte(d.Identity())))
	return filepath.Join("cells", baselineOf(c), name, c.Row)
}

// shares names the cells that share compiled steps.
func shares(c study.Cell[Config]) string {
	if c.Row == rowAlignment || c.Row == rowMethod {
		return c.Row
	}
	return baselineOf(c)
}

// columnOf is the column of a baseline's numbers: "DINO/knn_Acc@1".
func columnOf(baseline, column string) string { return titles[baseline] + "/" + column }

// Study is the experiment.
var Study = maintable.Spec(study.Spec[Config, maintable.Data]{
	Name:  Name,
	Parts: []string{"dataset", "baseline", "row", "seed"},
	Cells: cells,
	Open: func(o study.Options, _ string, cells []study.Cell[Config]) (maintable.Data, error) {
		for _, c := range cells {
			if file := c.Config.Weights; file != "" { // Before anything is compiled or written.
				if err := sccore.CheckStart(file, c.Config.Second); err != nil {
					return maintable.Data{}, study.BadOption{Err: fmt.Errorf("--set %s.weights=%s: %w", baselineOf(c), file, err)}
				}
			}
		}
		return maintable.Open(o, cells[0].Config.Config, cells[0].Seed)
	},
	Numbers: func(d maintable.Data, c study.Cell[Config]) []study.Number {
		numbers := d.Numbers(c.Row, c.Config.Config)
		for i := range numbers {
			numbers[i].Column = columnOf(baselineOf(c), numbers[i].Column)
		}
		return numbers
	},
	Steps: steps,
	FLOPs: func(c study.Cell[Config]) float64 {
		return float64(steps(maintable.Data{}, c)) * c.Config.Second.FLOPs()
	}, // The method's, or less.
	NewWorker: newWorker,
	Shares:    shares,
	Needs:     needs,
	Folder:    folder,
	ProfileConfig: func(r study.Record, config Config) Config {
		c := ProfileConfig(r.Profile, r.Kind == figures.Real, config.Own.Method)
		if r.Profile == study.Full { // It needs a file.
			c.Weights, c.WeightsSHA256 = config.Weights, config.WeightsSHA256
		}
		return c
	},
	Common: func(config, _ Config) Config {
		config.Weights = ""
		return config
	},
	Tables:  study.ByKind(tables),
	Figures: drawn,
})

// baselines lists the baselines with records, in the paper's order.
func baselines(r study.Results) []string {
	return lo.Filter(selfdistillation.Names, func(baseline string, _ int) bool { return len(recorded(r, baseline)) > 0 })
}

// recorded are the columns of a baseline with records.
func recorded(r study.Results, baseline string) []string {
	return lo.Filter(r.Columns(), func(column string, _ int) bool { return strings.HasPrefix(column, titles[baseline]+"/") })
}
