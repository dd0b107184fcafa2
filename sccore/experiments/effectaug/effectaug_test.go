package effectaug

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/methods"
	"github.com/semcon/semcon/sccore/recipe/augmentation"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/studytest"
	"github.com/semcon/semcon/sccore/views"
)

func TestRowsAreThePapers(t *testing.T) {
	paper, err := figures.Paper("effect_aug_full")
	if err != nil {
		t.Fatal(err)
	}
	if len(augmentation.Rows) != 13 || len(paper.Rows) != 13 {
		t.Fatalf("%d rows, the paper has %d", len(augmentation.Rows), len(paper.Rows))
	}
	for i, row := range augmentation.Rows {
		if !slices.Equal(row.Heads(), paper.Rows[i].Heads) {
			t.Errorf("row %d is %v, in the paper %v", i, row.Heads(), paper.Rows[i].Heads)
		}
	}
	for i, want := range []string{"crop+blur+gray+jitter+flip", "crop+blur+gray+jitter", "crop+blur+gray", "crop+blur", "crop"} {
		if string(augmentation.Rows[i]) != want || augmentation.Rows[i].Transformations() != 5-i {
			t.Errorf("row %d is %q with %d transformations", i, augmentation.Rows[i], augmentation.Rows[i].Transformations())
		}
	}
	recipe := augmentation.Rows[9].Recipe(views.Default())
	if recipe.Crop != views.SameCrop || !recipe.Flip || recipe.MinScale != 0.08 {
		t.Errorf("recipe of %s is %+v", augmentation.Rows[9], recipe)
	}
}

func TestFullIsThePapersSetting(t *testing.T) {
	all, err := cells(study.Options{Profile: study.Full}, "cifar10")
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != (13+1)*4*3 {
		t.Errorf("%d runs on one dataset, want 13 rows and the untrained one × 4 methods × 3 seeds", len(all))
	}
	rates := map[string]float64{methods.SimCLR: 0.06, methods.MoCo: 0.08, methods.SimSiam: 0.05, methods.BarlowTwins: 0.11}
	for _, c := range all {
		s := c.Config
		if s.Encoder != "resnet18" || s.Batch != 512 || s.Epochs != 800 || s.Momentum != 0.9 || s.WeightDecay != 5e-4 || s.LearningRate != rates[c.Config.Method] ||
			s.KNN.K != 200 || s.KNN.Temperature != 0.1 {
			t.Fatalf("%s has %+v", c.Name(), s)
		}
	}
}

func TestEveryProfileIsValid(t *testing.T) {
	for _, profile := range []study.Profile{study.Smoke, study.Quick, study.Full} {
		all, err := cells(study.Options{Profile: profile}, "synthetic")
		if err != nil || len(all) == 0 {
			t.Errorf("%s: %d cells, %v", profile, len(all), err)
		}
	}
}

func TestSetForOneMethod(t *testing.T) {
	all, err := cells(study.Options{Profile: study.Quick, Seeds: 1, Set: []string{"epochs=7", "moco.rate=0.5"}}, "cifar10")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		if c.Config.Epochs != 7 || (c.Config.LearningRate == 0.5) != (c.Config.Method == methods.MoCo) {
			t.Errorf("%s has %d epochs and rate %g", c.Name(), c.Config.Epochs, c.Config.LearningRate)
		}
	}
	for _, set := range []string{"method=byol", "method=moco", "byol.rate=1", "batch=0", "batch=null", "recipe.Crop=same", "recipe.Flip=false"} {
		if _, err := cells(study.Options{Profile: study.Quick, Set: []string{set}}, "cifar10"); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("--set %s: error %v", set, err)
		}
	}
}

func TestSources(t *testing.T) {
	empty := t.TempDir()
	for _, c := range []struct {
		profile study.Profile
		dir     string
		want    string // In the error, or the source's name.
		fails   bool
	}{
		{study.Smoke, "", "synthetic", false},
		{study.Quick, "", "synthetic", false},
		{study.Full, "", "--data", true},
		{study.Quick, empty, empty, true},
		{study.Quick, filepath.Join(empty, "nowhere"), "nowhere", true},
	} {
		found, _, err := augmentation.DatasetNames(study.Options{Profile: c.profile, Data: c.dir})
		switch {
		case c.fails && (err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n")):
			t.Errorf("%s on %q: error %v is not one line with %q", c.profile, c.dir, err, c.want)
		case !c.fails && (err != nil || found[0] != c.want):
			t.Errorf("%s on %q: %v, %v", c.profile, c.dir, found, err)
		}
	}
}

// tiny makes a study of two runs that take seconds on the Go engine.
func tiny(out string) study.Options {
	return study.Options{Profile: study.Smoke, Out: out, Parallel: 2, Only: []string{"*/simsiam"},
		Set: []string{"encoder=conv4-w4", "batch=64", "epochs=2", "projector_hidden=8", "projector_dim=8", "predictor_hidden=4"}}
}

// results is what a study left: the measured part of its records, and the bytes of its curves and weights.
func results(t *testing.T, out string) map[string]string {
	t.Helper()
	dir := filepath.Join(out, Name)
	left := map[string]string{}
	for _, r := range studytest.RecordsByCell(t, out, Name) {
		if r.Row == untrained { // It leaves nothing but its record.
			left[r.Cell] = fmt.Sprint(math.Float64bits(r.Value), r.ConfigHash, r.Details)
			continue
		}
		curve, err := os.ReadFile(filepath.Join(dir, r.Curve))
		if err != nil {
			t.Fatal(err)
		}
		weights, err := os.ReadFile(filepath.Join(dir, filepath.Dir(r.Curve), augmentation.WeightsFile))
		if err != nil {
			t.Fatal(err)
		}
		delete(r.Details, "images_per_second")
		left[r.Cell] = fmt.Sprint(r.Row, r.Column, math.Float64bits(r.Value), r.Seed, r.ConfigHash, r.Data, r.Details) + string(curve) + string(weights)
	}
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && (entry.Name() == "checkpoint.safetensors" || strings.HasPrefix(entry.Name(), "step-") || strings.HasPrefix(entry.Name(), ".")) {
			t.Errorf("left behind: %s", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return left
}

func TestInterruptedStudyEqualsUninterrupted(t *testing.T) {
	b := testbackend.Go(t)
	whole, broken := t.TempDir(), t.TempDir()
	if err := Study.Run(context.Background(), b, tiny(whole)); err != nil {
		t.Fatal(err)
	}
	want := results(t, whole)
	if len(want) != 3 {
		t.Fatalf("%d records, want 3", len(want))
	}
	stopped := 0
	for attempt := 0; ; attempt++ {
		ctx, cancel := context.WithCancel(context.Background())
		options := tiny(broken)
		options.Parallel = 1 + attempt%2
		options.Watch = func(string, []study.Point) { cancel() } // At the end of each epoch.
		err := Study.Run(ctx, b, options)
		cancel()
		if err == nil {
			break
		}
		if ctx.Err() == nil || attempt > 20 {
			t.Fatalf("attempt %d: %v", attempt, err)
		}
		stopped++
	}
	if stopped < 2 {
		t.Errorf("stopped %d times, too few to show anything", stopped)
	}
	got := results(t, broken)
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s differs after %d stops", name, stopped)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d records after stops, %d without", len(got), len(want))
	}

	begun := time.Now()
	if err := Study.Run(context.Background(), b, tiny(whole)); err != nil {
		t.Fatal(err)
	}
	if again := results(t, whole); len(again) != len(want) {
		t.Errorf("running again made %d records of %d (%s)", len(again), len(want), time.Since(begun))
	}
}

// TestDamagedCheckpointsAreNamed damages every checkpoint of a run, so that none is left to go on from.
func TestDamagedCheckpointsAreNamed(t *testing.T) {
	b := testbackend.Go(t)
	out := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	options := tiny(out)
	options.Only = []string{"*/simsiam/crop+*"}
	options.Watch = func(string, []study.Point) { cancel() }
	if err := Study.Run(ctx, b, options); err == nil {
		t.Fatal("the study was not stopped")
	}
	matches, err := filepath.Glob(filepath.Join(out, Name, "cells", "*", "*", "*", "*", "step-*.safetensors"))
	if err != nil || len(matches) == 0 {
		t.Fatalf("checkpoints %v, %v", matches, err)
	}
	newest := matches[len(matches)-1]
	for _, checkpoint := range matches {
		if err := os.Truncate(checkpoint, 100); err != nil {
			t.Fatal(err)
		}
	}
	options.Watch = nil
	err = Study.Run(context.Background(), b, options)
	if err == nil || !strings.Contains(err.Error(), newest) || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v is not one line naming %s", err, newest)
	}
}

// TestADivergedRunDoesNotStopTheOthers drives one method to infinity; the other one is recorded all the same.
func TestADivergedRunDoesNotStopTheOthers(t *testing.T) {
	options := tiny(t.TempDir())
	options.Only = []string{"*/simsiam/crop+*", "*/simclr/crop+*"}
	options.Set = append(options.Set, "batch=32", "simclr.rate=1e6", "simclr.weight_decay=1e6")
	err := Study.Run(context.Background(), testbackend.Go(t), options)
	if err == nil || !strings.HasPrefix(err.Error(), "1 of 2 runs diverged: synthetic/simclr/") || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v", err)
	}
	records, err := study.Records(study.Folder(options.Out, Name))
	if err != nil || len(records) != 1 || !strings.Contains(records[0].Cell, "simsiam") {
		t.Errorf("records %v, %v; want only simsiam's", records, err)
	}
}

// TestACheckpointLeftByAKillGoes has one lie beside a record, as a kill between the two leaves it.
func TestACheckpointLeftByAKillGoes(t *testing.T) {
	options := tiny(t.TempDir())
	options.Only = []string{"*/simsiam/crop+*"}
	if err := Study.Run(context.Background(), testbackend.Go(t), options); err != nil {
		t.Fatal(err)
	}
	records, err := study.Records(study.Folder(options.Out, Name))
	if err != nil || len(records) != 1 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	left := filepath.Join(options.Out, Name, filepath.Dir(records[0].Curve), "checkpoint.safetensors")
	if err := os.WriteFile(left, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Study.Run(context.Background(), testbackend.Go(t), options); err != nil {
		t.Fatal(err)
	}
	results(t, options.Out)
}

// madeUp are records with chosen accuracies: seeds 0 to 2 of SimCLR on CIFAR-10.
func madeUp(rows map[string][]float64) []study.Record {
	var records []study.Record
	for _, row := range augmentation.Rows {
		config := augmentation.ProfileConfig(study.Quick, methods.SimCLR, true)
		config.Recipe = row.Recipe(config.Recipe)
		for seed, value := range rows[string(row)] {
			records = append(records, study.Record{Experiment: Name, Cell: fmt.Sprintf("cifar10/simclr/%s/seed%d", string(row), seed), Row: string(row),
				Column: "CIFAR-10/SimCLR", Value: value, Seed: seed, Profile: study.Quick, Config: study.EncodeConfig(config), Data: "made up"})
		}
	}
	return records
}

func TestTablesAndClaimsFromRecords(t *testing.T) {
	records := madeUp(map[string][]float64{
		string(augmentation.AllCrops): {40, 41, 42}, string(augmentation.NoCrop): {30, 30, 31}, string(augmentation.SameCrop): {43, 41, 40},
		"crop+blur+gray+jitter": {39, 40, 41}, "crop+blur+gray": {35, 36, 35}, "crop+blur": {30, 31, 30}, "crop": {29, 30, 29},
	})
	changed := augmentation.ProfileConfig(study.Quick, methods.SimCLR, true)
	changed.LearningRate, changed.KNN.K = 0.5, 20
	other := records[0]
	other.Config, other.Value = study.EncodeConfig(changed), 99
	// Whether it ran before or after, a run with other settings stands back behind the profile's own.
	results, err := Study.Results(append(append([]study.Record{other}, records...), other), study.Quick)
	if err != nil {
		t.Fatal(err)
	}
	tables := tables(results)
	if len(tables) != 2 {
		t.Fatalf("%d tables, want the full one and the excerpt", len(tables))
	}
	for _, table := range tables {
		markdown := table.Markdown()
		if strings.Contains(markdown, "99") {
			t.Errorf("%s shows a number of an older configuration", table.Title)
		}
	}
	cell := tables[0].Rows[0].Cells[0]
	if cell.Paper != 89.8 || !slices.Equal(cell.Ours, []float64{40, 41, 42}) {
		t.Errorf("first cell is %+v", cell)
	}
	if excerpt := tables[1].Rows[0].Cells[0]; excerpt.Paper != 88.5 || !slices.Equal(excerpt.Ours, []float64{39, 40, 41}) {
		t.Errorf("first cell of the excerpt is %+v", excerpt)
	}
	if len(tables[0].Rows[0].Cells[1].Ours) != 0 {
		t.Error("a method without runs has numbers")
	}

	alone, err := Study.Results([]study.Record{other}, study.Quick)
	if err != nil {
		t.Fatal(err)
	}
	if tables := Study.Tables(alone); !strings.Contains(tables[0].Markdown(), "Settings that differ from the profile's: knn.k=20, rate=0.5.") {
		t.Errorf("%v; the table does not say which settings were changed:\n%s", err, tables[0].Caption)
	}

	board := figures.NewScoreboard("quick", func(c figures.Claim, kind figures.DataKind) ([]float64, []string) {
		if kind == figures.Synthetic {
			return nil, nil
		}
		return results.Evidence("", c)[0].Values, nil
	})
	for _, row := range board.Rows {
		want := map[string]figures.Verdict{"C1": figures.HoldsCorrected, "C5": figures.Open, "C9": figures.HoldsCorrected}[row.Claim.ID]
		if want == "" {
			want = figures.NoRuns
		}
		if row.Verdict != want {
			t.Errorf("%s: %s of %v, want %s", row.Claim.ID, row.Verdict, row.Values, want)
		}
	}
}
