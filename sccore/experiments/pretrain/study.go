// Package pretrain trains with the paper's method in two stages ("Training pipeline"): alignment first, then the full method. Other experiments evaluate
// its encoders, and some train with its stages.
package pretrain

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/weights"
)

// Name is the experiment's name.
const Name = recipe.Pretraining

// Study is the experiment.
var Study = study.Spec[recipe.Config, recipe.Data]{
	Name:     Name,
	Parts:    []string{"dataset", "seed"},
	Datasets: recipe.DatasetNames,
	Missing:  recipe.Missing,
	Cells: func(o study.Options, dataset string) (_ []study.Cell[recipe.Config], err error) {
		defer try.Handle(&err)
		config := recipe.ProfileConfig(o.Profile, dataset == recipe.Images)
		try.E(config.Configure(o, &config, dataset == recipe.Images))
		seeds := study.Seeds(Name, o)
		try.E(study.CheckSeeds(seeds, config.Shares))
		return lo.Times(seeds, func(seed int) study.Cell[recipe.Config] {
			return study.Cell[recipe.Config]{Dataset: dataset, Path: []string{dataset}, Seed: seed, Config: config}
		}), nil
	},
	Caches: true,
	Open: func(o study.Options, _ string, cells []study.Cell[recipe.Config]) (recipe.Data, error) {
		return recipe.Open(o, cells[0].Config, cells[0].Seed)
	},
	Numbers: func(d recipe.Data, c study.Cell[recipe.Config]) []study.Number {
		rows := []string{recipe.RowRandom}
		if c.Config.Init != "" {
			rows = append(rows, recipe.RowInit)
		}
		rows = append(rows, lo.Map(stagesOf(c.Config), func(s recipe.Stage, _ int) string { return rowsOf[s.Name] })...)
		return lo.FlatMap(rows, func(row string, _ int) []study.Number { return recipe.NumbersOf(row, measuresOf(d, c.Config)) })
	},
	Folder: func(d recipe.Data, c study.Cell[recipe.Config]) string {
		trained := c.Config
		trained.Recall = recipe.Recall{} // It measures what is trained, and does not change it.
		hash := study.Hash(study.EncodeConfig(trained), []byte(d.Identity()))
		return filepath.Join("cells", filepath.Join(c.Path...), fmt.Sprintf("seed%d-%s", c.Seed, hash))
	},
	Steps: func(_ recipe.Data, c study.Cell[recipe.Config]) int {
		return lo.SumBy(stagesOf(c.Config), recipe.Stage.Steps)
	},
	FLOPs:         func(c study.Cell[recipe.Config]) float64 { return lo.SumBy(stagesOf(c.Config), recipe.Stage.FLOPs) },
	NewWorker:     func(*run) (study.Worker[recipe.Config, recipe.Data], error) { return worker{}, nil },
	ProfileConfig: recipe.Defaults,
	Common:        recipe.Common,
	Tables:        func(r study.Results) []figures.Table { return []figures.Table{table(r)} },
	Figures:       drawn,
}

// run is a running cell.
type run = study.Run[recipe.Config, recipe.Data]

// rowsOf are the rows of the stages.
var rowsOf = map[string]string{"first": recipe.RowAlignment, "control": recipe.RowControl, "second": recipe.RowMethod}

// stagesOf lists the stages of a cell. The second and its control begin where the first has ended, or from a file that replaces it.
func stagesOf(c recipe.Config) (stages []recipe.Stage) {
	after := filepath.Join("first", recipe.FinalFile)
	second, neighbours := c.Stage("second", c.Second, after), ""
	if c.Second.Lambdas.ImageConcentration > 0 {
		neighbours = recipe.NeighboursFile
	}
	if second.Neighbours = neighbours; c.Init == "" {
		stages = append(stages, recipe.Stage{Name: "first", Config: c.First, Neighbours: neighbours})
	}
	if !c.WithoutControl {
		stages = append(stages, c.Stage("control", c.Control(), after))
	}
	return append(stages, second)
}

// worker runs cells, with each stage compiled once.
type worker map[string]*recipe.Trainer

// Close frees the device's memory.
func (w worker) Close() {
	for _, t := range w {
		t.Close()
	}
}

// Run trains the stages of a cell, and measures the initial encoder and the encoder after each stage.
func (w worker) Run(r *run) (err error) {
	defer try.Handle(&err)
	c, stages := r.Cell.Config, stagesOf(r.Cell.Config)
	for _, s := range stages {
		if w[s.Name] == nil && (s.Name != "control" || r.Wants(recipe.RowControl)) {
			w[s.Name] = try.E1(recipe.New(r.Backend(), r.Data.Train, s))
		}
		if w[s.Name] != nil {
			try.E(w[s.Name].SetData(r.Data.Train))
			w[s.Name].Report(r.Skip)
		}
	}
	if c.Init != "" {
		try.E(w.fromFile(r, stages[len(stages)-1]))
	} else if r.Wants(recipe.RowRandom) {
		try.E(w["first"].Begin(uint64(r.Cell.Seed)))
		try.E(record(r, recipe.RowRandom, w["first"].Frozen, ""))
	}
	for _, s := range stages {
		t, row, dir := w[s.Name], rowsOf[s.Name], filepath.Join(r.Dir, s.Name)
		if s.Name == "control" && !r.Wants(row) {
			continue
		}
		try.E(recipe.Train(r, t, s, dir, r.Data, c))
		try.E(record(r, row, t.Frozen, dir))
	}
	return nil
}

// fromFile finds the neighbours with the encoder of a file and measures it, and random weights beside it.
func (w worker) fromFile(r *run, second recipe.Stage) (err error) {
	defer try.Handle(&err)
	_, err = os.Stat(filepath.Join(r.Dir, recipe.NeighboursFile))
	if !r.Wants(recipe.RowInit) && !r.Wants(recipe.RowRandom) && err == nil {
		return nil
	}
	t := w["second"]
	try.E(t.StartForEncoder(second, r.Dir, uint64(r.Cell.Seed), r.Data.Train.Objects.Len()))
	if second.Neighbours != "" {
		r.Say("finding neighbours")
		neighbours := r.Data.Neighbours(filepath.Join(r.Dir, second.Neighbours), r.Cell.Seed, r.Cell.Config)
		try.E1(neighbours.Find(r.Context, r.Backend(), t.Frozen))
	}
	frozen := try.E1(t.Extractor(false))
	defer frozen.Close()
	try.E(saveStart(r, t, frozen.ViT)) // Before the record, so that a run that is killed in between writes it again.
	try.E(record(r, recipe.RowInit, frozen, ""))
	if !r.Wants(recipe.RowRandom) {
		return nil
	}
	try.E(t.Begin(uint64(r.Cell.Seed)))
	return record(r, recipe.RowRandom, frozen, "")
}

// saveStart writes the encoder of the file as [recipe.EncoderFile] names it, for the experiments that evaluate encoders: the file itself may hold a whole trainer, and move.
func saveStart(r *run, t *recipe.Trainer, vit encoder.ViT) (err error) {
	defer try.Handle(&err)
	if !r.Wants(recipe.RowInit) {
		return nil
	}
	file := filepath.Join(r.Dir, "init", recipe.OnlineFile)
	try.E(os.MkdirAll(filepath.Dir(file), 0o777))
	_, store, scope := t.Encoder(sccore.Online)
	return weights.Export(file, weights.Timm, store, scope, vit, nil, map[string]string{
		"run": r.Cell.Name(), "stage": "init", "config": string(study.EncodeConfig(r.Cell.Config)),
	})
}

// record measures an encoder and records its numbers. dir is the folder of the stage that trained it, whose model card it writes, or empty.
func record(r *run, row string, frozen *evaluation.FeatureExtractor, dir string) (err error) {
	defer try.Handle(&err)
	c := r.Cell.Config
	numbers := try.E1(recipe.Measured(r, row, dir, frozen, measuresOf(r.Data, c)))
	if len(numbers) == 0 || row == recipe.RowRandom {
		return r.Record(numbers...)
	}
	left := lo.Ternary(dir == "", "init", filepath.Base(dir)) // The folder of the encoder's file.
	file := try.E1(r.Path(filepath.Join(left, recipe.OnlineFile)))
	var measured []string
	for i, n := range numbers {
		numbers[i].Encoder = file
		measured = append(measured, strings.TrimSpace(fmt.Sprintf("%s %.4g %s", n.Metric, n.Value, n.Unit))+" ("+n.Protocol+")")
	}
	if dir != "" { // Before the record, so that a run that is killed in between writes it again.
		try.E(weights.Card{
			ViT: frozen.ViT, Preprocessing: datasets.DefaultPreprocessing(), Size: c.Size,
			Facts: []weights.Fact{
				{Name: "Trained by", Text: fmt.Sprintf("experiment %s, run %s, profile %s, stage %s, online branch", Name, r.Cell.Name(), r.Options().Profile, left)},
				{Name: "Data", Text: r.Data.Identity()},
				{Name: "Record", Text: strings.Join(measured, "; ")},
				{Name: "Settings", Text: string(study.EncodeConfig(c))},
			},
		}.Write(filepath.Join(dir, recipe.OnlineFile)))
	}
	return r.Record(numbers...)
}

// measuresOf lists what is measured of an encoder: recall over patches, on synthetic images a linear probe of the patch features of scenes and k-NN on objects, on real
// ones the effective rank of patch features. Its pictures are identified as they are preprocessed, so that numbers of crops of another kind are not compared.
func measuresOf(d recipe.Data, c recipe.Config) []recipe.Measure {
	all := d.RecallMeasures(c.Recall, c.Probe)
	add := func(e evaluation.Evaluation, n study.Number) {
		all = append(all, recipe.Measure{Evaluation: e, Images: d.Labelled(), Numbers: []study.Number{n}, Read: func(numbers []study.Number, result evaluation.Result) error {
			numbers[0].Value = result.Numbers[len(result.Numbers)-1].Value
			return nil
		}})
	}
	if d.Scenes[0] == nil {
		crops := datasets.DefaultPreprocessing().Describe(c.Size)
		if _, whole := d.Train.Objects.(*datasets.AnnotatedScenes); whole {
			crops = fmt.Sprintf("whole images resized to %d² px", c.Size)
		}
		add(evaluation.Spread{Images: 256, Size: c.Size}, study.Number{
			Column: recipe.ColumnRank, Metric: "effective rank", Data: d.Identity() + "; " + crops, Protocol: "patch features of the first scenes, " + crops,
		})
		return all
	}
	nearest := evaluation.KNN{Classifier: c.KNN, Size: c.Size}
	add(c.Probe, study.Number{Column: recipe.ColumnMIoU, Metric: "mIoU", Unit: "%", Protocol: c.Probe.Protocol()})
	add(nearest, study.Number{Column: recipe.ColumnKNN, Metric: "k-NN accuracy", Unit: "%", Protocol: nearest.Protocol()})
	return all
}

// table returns a table of the rows and columns with records.
func table(r study.Results) figures.Table {
	t := study.TableOf(Name, "stages")
	t.Columns = slices.DeleteFunc(t.Columns, func(c study.Column) bool { return !slices.Contains(r.Columns(), c.Head) })
	return t.Of(r)
}

// Encoder returns the file of an encoder of the last recorded run with a seed: after the stage "first" or "second", of the "target" or the "online"
// branch, or the "best" encoder of the online branch if the images have labels. A run without records is an error.
func Encoder(r study.Results, out string, seed int, stage, branch string) (_ string, err error) {
	defer try.Handle(&err)
	return filepath.Join(filepath.Dir(recipe.EncoderFile(out, try.E1(trained(r, seed)), stage)), branch+".safetensors"), nil
}

// trained is a record of the full method of the last recorded run with a seed.
func trained(r study.Results, seed int) (last study.Record, err error) {
	for _, column := range []string{recipe.ColumnMIoU, recipe.ColumnRank} { // With labels, and without.
		if record, ok := r.OfSeed(recipe.RowMethod, column, seed); ok && record.Finished.After(last.Finished) {
			last = record
		}
	}
	if last.Curve == "" {
		return last, fmt.Errorf("no run of %s with seed %d is recorded in profile %s", Name, seed, r.Profile)
	}
	return last, nil
}

// Trained returns the file of the best encoder that runs have left under out, and what it is: the online branch of the full method, in the largest profile,
// with seed 0. Both are empty without such a run.
func Trained(out string) (file, name string) {
	for _, profile := range slices.Backward(study.Profiles) {
		results, _ := Study.Load(study.Options{Out: out, Profile: profile}) // Without results there is no encoder, and without one no file.
		file, _ := Encoder(results, out, 0, "second", "online")
		if _, err := os.Stat(file); err == nil {
			return file, fmt.Sprintf("%s, %s profile", Name, profile)
		}
	}
	return "", ""
}
