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

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/methods"
	"github.com/semcon/semcon/sccore/views"
)

func TestRowsAreThePapers(t *testing.T) {
	paper, err := figures.Paper("effect_aug_full")
	if err != nil {
		t.Fatal(err)
	}
	if len(EffectAugRows) != 13 || len(paper.Rows) != 13 {
		t.Fatalf("%d rows, the paper has %d", len(EffectAugRows), len(paper.Rows))
	}
	for i, row := range EffectAugRows {
		if !slices.Equal(row.Heads(), paper.Rows[i].Heads) {
			t.Errorf("row %d is %v, in the paper %v", i, row.Heads(), paper.Rows[i].Heads)
		}
	}
	for i, want := range []string{"crop+blur+gray+jitter+flip", "crop+blur+gray+jitter", "crop+blur+gray", "crop+blur", "crop"} {
		if EffectAugRows[i].Name != want || EffectAugRows[i].Transformations() != 5-i {
			t.Errorf("row %d is %q with %d transformations", i, EffectAugRows[i].Name, EffectAugRows[i].Transformations())
		}
	}
	recipe := EffectAugRows[9].Recipe(views.Default())
	if recipe.Crop != views.SameCrop || !recipe.Flip || recipe.MinScale != 0.08 {
		t.Errorf("recipe of %s is %+v", EffectAugRows[9].Name, recipe)
	}
}

func TestFullIsThePapersSetting(t *testing.T) {
	cells, err := effectAugCells(Options{Profile: Full}, "cifar10")
	if err != nil {
		t.Fatal(err)
	}
	if len(cells) != 13*4*3 {
		t.Errorf("%d runs on one dataset, want 13 rows × 4 methods × 3 seeds", len(cells))
	}
	rates := map[string]float64{methods.SimCLR: 0.06, methods.MoCo: 0.08, methods.SimSiam: 0.05, methods.BarlowTwins: 0.11}
	for _, c := range cells {
		s := c.config
		if s.Encoder != "resnet18" || s.Batch != 512 || s.Epochs != 800 || s.Momentum != 0.9 || s.WeightDecay != 5e-4 || s.Rate != rates[c.method] ||
			s.KNN.K != 200 || s.KNN.Temperature != 0.1 {
			t.Fatalf("%s has %+v", c.name(), s)
		}
	}
}

func TestEveryProfileIsValid(t *testing.T) {
	for _, profile := range []Profile{Smoke, Quick, Full} {
		cells, err := effectAugCells(Options{Profile: profile}, "synthetic")
		if err != nil || len(cells) == 0 {
			t.Errorf("%s: %d cells, %v", profile, len(cells), err)
		}
	}
}

func TestSetForOneMethod(t *testing.T) {
	cells, err := effectAugCells(Options{Profile: Quick, Seeds: 1, Set: []string{"epochs=7", "moco.rate=0.5"}}, "cifar10")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cells {
		if c.config.Epochs != 7 || (c.config.Rate == 0.5) != (c.method == methods.MoCo) {
			t.Errorf("%s has %d epochs and rate %g", c.name(), c.config.Epochs, c.config.Rate)
		}
	}
	for _, set := range []string{"method=byol", "method=moco", "byol.rate=1", "batch=0", "batch=null", "recipe.Crop=same", "recipe.Flip=false"} {
		if _, err := effectAugCells(Options{Profile: Quick, Set: []string{set}}, "cifar10"); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("--set %s: error %v", set, err)
		}
	}
}

func TestOnly(t *testing.T) {
	cells, err := effectAugCells(Options{Profile: Full}, "cifar10")
	if err != nil {
		t.Fatal(err)
	}
	for pattern, want := range map[string]int{
		"cifar10/simclr/crop/seed0": 1, "*/moco": 39, "*/*/crop*/seed1": 20, "*/*/same+*": 48, "*": 156,
	} {
		if kept, err := selected(cells, effectAugParts, []string{pattern}); err != nil || len(kept) != want {
			t.Errorf("--only %s keeps %d cells, want %d (%v)", pattern, len(kept), want, err)
		}
	}
	if kept, err := selected(cells, effectAugParts, []string{"*/moco/crop/seed0", "*/moco/crop/*"}); err != nil || len(kept) != 3 {
		t.Errorf("overlapping patterns keep %d cells, want 3 (%v)", len(kept), err)
	}
	for pattern, want := range map[string]string{
		"cifar10/byol": `no method "byol" among simclr`,
		"*/*/crop+cut": `no row "crop+cut"`,
		"imagenet":     `no dataset "imagenet"`,
		"*/*/*/seed9":  `no seed "seed9"`,
		"a/b/c/d/e":    "more parts",
		"*/moco/[":     "syntax error",
	} {
		if _, err := selected(cells, effectAugParts, []string{pattern}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("--only %s: error %v is not one line with %q", pattern, err, want)
		}
	}
}

func TestSources(t *testing.T) {
	empty := t.TempDir()
	for _, c := range []struct {
		profile Profile
		dir     string
		want    string // In the error, or the source's name.
		fails   bool
	}{
		{Smoke, "", "synthetic", false},
		{Quick, "", "synthetic", false},
		{Full, "", "--data", true},
		{Quick, empty, empty, true},
		{Quick, filepath.Join(empty, "nowhere"), "nowhere", true},
	} {
		sources, err := effectAugSources(c.profile, c.dir)
		switch {
		case c.fails && (err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n")):
			t.Errorf("%s on %q: error %v is not one line with %q", c.profile, c.dir, err, c.want)
		case !c.fails && (err != nil || sources[0].name != c.want):
			t.Errorf("%s on %q: %v, %v", c.profile, c.dir, sources, err)
		}
	}
}

// goEngine opens the backend that needs no compilation, which these studies of seconds would spend their time on; package siamese's tests
// hold both backends to the same promises, run by run.
func goEngine(t *testing.T) compute.Backend {
	t.Helper()
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// tiny makes a study of two runs that take seconds on the Go engine.
func tiny(out string) Options {
	return Options{Profile: Smoke, Out: out, Parallel: 2, Only: []string{"*/simsiam"},
		Set: []string{"encoder=conv4-w4", "batch=64", "epochs=2", "projector_hidden=8", "projector_dim=8", "predictor_hidden=4"}}
}

// results is what a study left: the measured part of its records, and the bytes of its curves and weights.
func results(t *testing.T, out string) map[string]string {
	t.Helper()
	dir := filepath.Join(out, EffectAug)
	left := map[string]string{}
	for _, r := range recordsByCell(t, out, EffectAug) {
		curve, err := os.ReadFile(filepath.Join(dir, r.Curve))
		if err != nil {
			t.Fatal(err)
		}
		weights, err := os.ReadFile(filepath.Join(dir, filepath.Dir(r.Curve), weightsFile))
		if err != nil {
			t.Fatal(err)
		}
		delete(r.Details, "images_per_second")
		left[r.Cell] = fmt.Sprint(r.Row, r.Column, math.Float64bits(r.Value), r.Seed, r.ConfigHash, r.Data, r.Details) + string(curve) + string(weights)
	}
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && (entry.Name() == checkpointFile || strings.HasPrefix(entry.Name(), ".")) {
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
	b := goEngine(t)
	whole, broken := t.TempDir(), t.TempDir()
	if err := runEffectAug(context.Background(), b, tiny(whole)); err != nil {
		t.Fatal(err)
	}
	want := results(t, whole)
	if len(want) != 2 {
		t.Fatalf("%d records, want 2", len(want))
	}
	stopped := 0
	for attempt := 0; ; attempt++ {
		ctx, cancel := context.WithCancel(context.Background())
		options := tiny(broken)
		options.Parallel = 1 + attempt%2
		options.Watch = func(string, []Point) { cancel() } // At the end of each epoch.
		err := runEffectAug(ctx, b, options)
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
	if err := runEffectAug(context.Background(), b, tiny(whole)); err != nil {
		t.Fatal(err)
	}
	if again := results(t, whole); len(again) != len(want) {
		t.Errorf("running again made %d records of %d (%s)", len(again), len(want), time.Since(begun))
	}
}

func TestALockedCellIsLeftToItsHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock(path); err != errLocked {
		t.Errorf("second lock: %v, want %v", err, errLocked)
	}
	unlock()
	unlock, err = lock(path)
	if err != nil {
		t.Errorf("lock after unlock: %v", err)
	} else {
		unlock()
	}
}

func TestADamagedCheckpointIsNamed(t *testing.T) {
	b := goEngine(t)
	out := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	options := tiny(out)
	options.Only = []string{"*/simsiam/crop+*"}
	options.Watch = func(string, []Point) { cancel() }
	if err := runEffectAug(ctx, b, options); err == nil {
		t.Fatal("the study was not stopped")
	}
	matches, err := filepath.Glob(filepath.Join(out, EffectAug, "cells", "*", "*", "*", "*", checkpointFile))
	if err != nil || len(matches) != 1 {
		t.Fatalf("checkpoints %v, %v", matches, err)
	}
	if err := os.Truncate(matches[0], 100); err != nil {
		t.Fatal(err)
	}
	options.Watch = nil
	err = runEffectAug(context.Background(), b, options)
	if err == nil || !strings.Contains(err.Error(), matches[0]) || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v is not one line naming %s", err, matches[0])
	}
}

// TestADivergedRunDoesNotStopTheOthers drives one method to infinity; the other one is recorded all the same.
func TestADivergedRunDoesNotStopTheOthers(t *testing.T) {
	options := tiny(t.TempDir())
	options.Only = []string{"*/simsiam/crop+*", "*/simclr/crop+*"}
	options.Set = append(options.Set, "simclr.rate=1e30")
	err := runEffectAug(context.Background(), goEngine(t), options)
	if err == nil || !strings.HasPrefix(err.Error(), "1 of 2 runs diverged: synthetic/simclr/") || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v", err)
	}
	records, err := Records(filepath.Join(options.Out, EffectAug))
	if err != nil || len(records) != 1 || !strings.Contains(records[0].Cell, "simsiam") {
		t.Errorf("records %v, %v; want that of simsiam", records, err)
	}
}

// TestACheckpointLeftByAKillGoes has one lie beside a record, as a kill between the two leaves it.
func TestACheckpointLeftByAKillGoes(t *testing.T) {
	options := tiny(t.TempDir())
	options.Only = []string{"*/simsiam/crop+*"}
	if err := runEffectAug(context.Background(), goEngine(t), options); err != nil {
		t.Fatal(err)
	}
	records, err := Records(filepath.Join(options.Out, EffectAug))
	if err != nil || len(records) != 1 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	left := filepath.Join(options.Out, EffectAug, filepath.Dir(records[0].Curve), checkpointFile)
	if err := os.WriteFile(left, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := runEffectAug(context.Background(), goEngine(t), options); err != nil {
		t.Fatal(err)
	}
	results(t, options.Out)
}

// madeUp are records with chosen accuracies: seeds 0 to 2 of SimCLR on CIFAR-10.
func madeUp(rows map[string][]float64) []Record {
	var records []Record
	for _, row := range EffectAugRows {
		config := effectAugConfig(Quick, methods.SimCLR)
		config.Recipe = row.Recipe(config.Recipe)
		for seed, value := range rows[row.Name] {
			records = append(records, Record{Experiment: EffectAug, Cell: fmt.Sprintf("cifar10/simclr/%s/seed%d", row.Name, seed), Row: row.Name,
				Column: "CIFAR-10/SimCLR", Value: value, Seed: seed, Profile: Quick, Config: configJSON(config), Data: "made up"})
		}
	}
	return records
}

func TestTablesAndClaimsFromRecords(t *testing.T) {
	records := madeUp(map[string][]float64{
		rowAll: {40, 41, 42}, rowNoCrop: {30, 30, 31}, rowSameCrop: {43, 41, 40},
		"crop+blur+gray+jitter": {39, 40, 41}, "crop+blur+gray": {35, 36, 35}, "crop+blur": {30, 31, 30}, "crop": {29, 30, 29},
	})
	changed := effectAugConfig(Quick, methods.SimCLR)
	changed.Rate, changed.KNN.K = 0.5, 20
	other := records[0]
	other.Config, other.Value = configJSON(changed), 99
	// Whether it ran before or after, a run with other settings stands back behind the profile's own.
	study, err := newEffectAugResults(append(append([]Record{other}, records...), other), Quick, effectAugSettings)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := study.tables()
	if err != nil {
		t.Fatal(err)
	}
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

	alone, err := newEffectAugResults([]Record{other}, Quick, effectAugSettings)
	if err != nil {
		t.Fatal(err)
	}
	if tables, err := alone.tables(); err != nil || !strings.Contains(tables[0].Markdown(), "CIFAR-10/SimCLR was run with other settings than the profile's: knn.k=20, rate=0.5.") {
		t.Errorf("%v; the table does not say which settings were changed:\n%s", err, tables[0].Caption)
	}

	board := figures.NewScoreboard("quick", nil, func(c figures.Claim) []float64 { return study.Measure(c, "CIFAR-10") })
	for _, row := range board.Rows {
		want := map[string]figures.Verdict{"C1": figures.Holds, "C5": figures.Open, "C9": figures.Holds}[row.Claim.ID]
		if want == "" {
			want = figures.NoRuns
		}
		if row.Verdict != want {
			t.Errorf("%s: %s of %v, want %s", row.Claim.ID, row.Verdict, row.Values, want)
		}
	}
}
