package pretrain

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/weights"
)

// run is a running cell.
type run = study.Run[recipe.Config, recipe.Data]

// rowsOf are the rows of the stages.
var rowsOf = map[string]string{"first": recipe.RowAlignment, "control": recipe.RowControl, "second": recipe.RowMethod}

// stagesOf lists the stages of a cell. The second and its control begin where the first has ended, or from a file that replaces it.
func stagesOf(c recipe.Config) (stages []recipe.Stage) {
	after := filepath.Join("first", recipe.FinalFile)
	if c.Init == "" {
		stages = append(stages, recipe.Stage{Name: "first", Config: c.First})
	}
	if !c.WithoutControl {
		stages = append(stages, c.Stage("control", c.Control(), after))
	}
	return append(stages, c.Stage("second", c.Second, after))
}

// worker runs cells, with each stage compiled once.
type worker map[string]*recipe.Trainer

func newWorker(*run) (study.Worker[recipe.Config, recipe.Data], error) { return worker{}, nil }

// Close frees the device's memory.
func (w worker) Close() {
	for _, t := range w {
		t.Close()
	}
}

// Run trains the stages of a cell, and measures the initial encoder and the encoder after each stage.
func (w worker) Run(r *run) (err error) {
	c, stages := r.Cell.Config, stagesOf(r.Cell.Config)
	for _, s := range stages {
		if w[s.Name] == nil && (s.Name != "control" || r.Wants(recipe.RowControl)) {
			if w[s.Name], err = recipe.New(r.Backend(), r.Data.Train, s); err != nil {
				return err
			}
		}
		if w[s.Name] != nil {
			if err := w[s.Name].SetData(r.Data.Train); err != nil {
				return err
			}
			w[s.Name].Report(r.Skip)
		}
	}
	if c.Init != "" {
		err = w.fromFile(r, stages[len(stages)-1])
	} else if r.Wants(recipe.RowRandom) {
		if err = w["first"].Begin(uint64(r.Cell.Seed)); err == nil {
			err = record(r, recipe.RowRandom, w["first"].Frozen, "")
		}
	}
	if err != nil {
		return err
	}
	for _, s := range stages {
		t, row, dir := w[s.Name], rowsOf[s.Name], filepath.Join(r.Dir, s.Name)
		if s.Name == "control" && !r.Wants(row) {
			continue
		}
		if err := recipe.Train(r, t, s, dir, r.Data, c); err != nil {
			return err
		}
		if s.Name == "first" {
			if err := w.neighbours(r, t.Frozen); err != nil {
				return err
			}
		}
		if err := record(r, row, t.Frozen, dir); err != nil {
			return err
		}
	}
	return nil
}

// fromFile finds the neighbours with the encoder of a file and measures it, and random weights beside it.
func (w worker) fromFile(r *run, second recipe.Stage) error {
	_, err := os.Stat(filepath.Join(r.Dir, recipe.NeighboursFile))
	if !r.Wants(recipe.RowInit) && !r.Wants(recipe.RowRandom) && err == nil {
		return w.neighbours(r, nil)
	}
	t := w["second"]
	if err := t.StartForEncoder(second, r.Dir, uint64(r.Cell.Seed), r.Data.Train.Objects.Len()); err != nil {
		return err
	}
	if err := w.neighbours(r, t.Frozen); err != nil {
		return err
	}
	frozen, err := t.Extractor(false)
	if err != nil {
		return err
	}
	defer frozen.Close()
	if err := saveStart(r, t, frozen.ViT); err != nil { // Before the record, so that a run that is killed in between writes it again.
		return err
	}
	if err := record(r, recipe.RowInit, frozen, ""); err != nil || !r.Wants(recipe.RowRandom) {
		return err
	}
	if err := t.Begin(uint64(r.Cell.Seed)); err != nil {
		return err
	}
	return record(r, recipe.RowRandom, frozen, "")
}

// saveStart writes the encoder of the file as [recipe.EncoderFile] names it, for the experiments that evaluate encoders: the file itself may hold a whole trainer, and move.
func saveStart(r *run, t *recipe.Trainer, vit encoder.ViT) error {
	if !r.Wants(recipe.RowInit) {
		return nil
	}
	file := filepath.Join(r.Dir, "init", recipe.OnlineFile)
	if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
		return err
	}
	_, store, scope := t.Encoder(sccore.Online)
	return weights.ExportViT(file, store, scope, vit, nil, map[string]string{
		"run": r.Cell.Name(), "stage": "init", "config": string(study.EncodeConfig(r.Cell.Config)),
	})
}

// neighbours gives the second stage the neighbours that it draws positives from.
func (w worker) neighbours(r *run, frozen *evaluation.FeatureExtractor) error {
	c := r.Cell.Config
	if c.Second.Lambdas.ImageConcentration == 0 {
		return nil
	}
	r.Say("finding neighbours")
	found, err := r.Data.Neighbours(filepath.Join(r.Dir, recipe.NeighboursFile), r.Cell.Seed, c).Find(r.Context, r.Backend(), frozen)
	if err == nil {
		w["second"].SetNeighbours(found)
	}
	return err
}

// record measures an encoder and records its numbers. dir is the folder of the stage that trained it, whose model card it writes, or empty.
func record(r *run, row string, frozen *evaluation.FeatureExtractor, dir string) error {
	if !r.Wants(row) {
		return nil
	}
	c := r.Cell.Config
	numbers, err := recipe.Measured(r, row, dir, func() ([]study.Number, error) {
		return measure(r.Context, &evaluation.Encoder{FeatureExtractor: frozen, Seed: uint64(r.Cell.Seed)}, r.Data, c)
	})
	if err != nil || row == recipe.RowRandom {
		return cmp.Or(err, r.Record(numbers...))
	}
	left := "init" // The folder of the encoder's file.
	if dir != "" {
		left = filepath.Base(dir)
	}
	file, err := r.Path(filepath.Join(left, recipe.OnlineFile))
	var measured []string
	for i, n := range numbers {
		numbers[i].Encoder = file
		measured = append(measured, strings.TrimSpace(fmt.Sprintf("%s %.4g %s", n.Metric, n.Value, n.Unit))+" ("+n.Protocol+")")
	}
	if err == nil && dir != "" { // Before the record, so that a run that is killed in between writes it again.
		err = weights.Card{
			ViT: frozen.ViT, Preprocessing: datasets.DefaultPreprocessing(), Size: c.Size,
			Facts: []weights.Fact{
				{Name: "Trained by", Text: fmt.Sprintf("experiment %s, run %s, profile %s, stage %s, online branch", Name, r.Cell.Name(), r.Options().Profile, left)},
				{Name: "Data", Text: r.Data.Identity()},
				{Name: "Record", Text: strings.Join(measured, "; ")},
				{Name: "Settings", Text: string(study.EncodeConfig(c))},
			},
		}.Write(filepath.Join(dir, recipe.OnlineFile))
	}
	if err != nil {
		return err
	}
	return r.Record(numbers...)
}

// measured is a number of an encoder, without its value, and what measures it last.
type measured struct {
	study.Number
	by evaluation.Evaluation
}

// measuresOf lists what is measured of an encoder besides the recall over patches: on synthetic images a linear probe of the patch features of scenes and k-NN on
// objects, on real ones the effective rank of patch features. Its pictures are identified as they are preprocessed, so that numbers of crops of another kind are
// not compared.
func measuresOf(d recipe.Data, c recipe.Config) []measured {
	if d.Scenes[0] == nil {
		crops := datasets.DefaultPreprocessing().Describe(c.Size)
		if _, whole := d.Train.Objects.(*datasets.AnnotatedScenes); whole {
			crops = fmt.Sprintf("whole images resized to %d² px", c.Size)
		}
		return []measured{{
			study.Number{Column: recipe.ColumnRank, Metric: "effective rank", Data: d.Identity() + "; " + crops, Protocol: "patch features of the first scenes, " + crops},
			evaluation.Spread{Images: 256, Size: c.Size},
		}}
	}
	nearest := evaluation.KNN{Classifier: c.KNN, Size: c.Size}
	return []measured{
		{study.Number{Column: recipe.ColumnMIoU, Metric: "mIoU", Unit: "%", Protocol: c.Probe.Protocol()}, c.Probe},
		{study.Number{Column: recipe.ColumnKNN, Metric: "k-NN accuracy", Unit: "%", Protocol: nearest.Protocol()}, nearest},
	}
}

// measure measures an encoder.
func measure(ctx context.Context, e *evaluation.Encoder, d recipe.Data, c recipe.Config) ([]study.Number, error) {
	numbers, err := d.MeasureRecall(ctx, e, c.Recall, c.Probe)
	if err != nil {
		return nil, err
	}
	for _, m := range measuresOf(d, c) {
		result, err := m.by.Measure(ctx, e, d.Labelled())
		if err != nil {
			return nil, err
		}
		m.Value = result.Numbers[len(result.Numbers)-1].Value
		numbers = append(numbers, m.Number)
	}
	return numbers, nil
}
