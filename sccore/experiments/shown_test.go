package experiments

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/samber/lo"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/experiments/effectaug"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
)

// TestATableShowsTheRunOfItsSettings sets every key whose default differs between cells, such as the learning rate of two losses, to one of its defaults and to another value. Of the
// records of such a run beside those of the profile, the table with the same --set shows each one.
func TestATableShowsTheRunOfItsSettings(t *testing.T) {
	out, places := t.TempDir(), map[string][]study.Record{} // The net's records by experiment and cell.
	for _, r := range netRecords(t) {
		if r.Experiment == effectaug.Name { // Theory reads them. Files of encoders, which others read, are not there.
			if err := r.Append(study.Folder(out, r.Experiment)); err != nil {
				t.Fatal(err)
			}
		}
		key := r.Experiment + " " + r.Cell
		places[key] = append(places[key], r)
	}
	tried := map[string]int{}
	for _, e := range All() {
		dataset := netDatasets[e.Name][study.Smoke]
		if len(dataset) == 0 {
			dataset = []string{"synthetic"}
		}
		options := study.Options{Profile: study.Smoke, Out: out}
		// recordsOf are the records that a run leaves with --set.
		recordsOf := func(set ...string) (records []study.Record, err error) {
			options.Set = set
			cells, err := e.Cells(options, dataset[0])
			for _, c := range cells {
				for _, r := range placesOf(places, e.Name, c.Name) {
					r.Config, r.ConfigHash, r.Shared = study.EncodeConfig(c.Config), c.Hash, nil
					records = append(records, r)
				}
			}
			return records, err
		}
		usual, err := recordsOf()
		if err != nil || len(usual) == 0 {
			t.Fatalf("%s: %d records, %v", e.Name, len(usual), err)
		}
		for key, defaults := range severalDefaults(t, e, options, dataset[0]) {
			sets := lo.Map(append(defaults[:2], "0.02", "48"), func(value string, _ int) string { return key + "=" + strings.Trim(value, `"`) })
			for _, set := range append(sets, "bce."+sets[1], "simclr."+sets[1], "dino."+sets[1], "fpn."+sets[1]) {
				records, err := recordsOf(set)
				if err != nil { // Some values are out of range, and some keys are of the cells.
					continue
				}
				tried[e.Name]++
				options.Set = []string{set}
				selected, err := e.Selected(slices.Concat(usual, records), options)
				if err != nil {
					t.Fatal(err)
				}
				results, err := e.Results(selected, study.Smoke)
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range records {
					if shown, ok := results.OfSeed(r.Row, r.Column, r.Seed); !ok || shown.ConfigHash != r.ConfigHash {
						t.Errorf("%s --set %s: the table leaves out %s", e.Name, set, r.Cell)
					}
				}
				tables, err := e.Tables(selected, study.Smoke)
				if err != nil {
					t.Fatal(err)
				}
				for _, table := range tables {
					if strings.Contains(table.Caption, "cannot be compared") {
						t.Errorf("%s --set %s: %s", e.Name, set, table.Caption)
					}
				}
			}
		}
	}
	for _, name := range []string{"effect-aug", "noise-tolerance", "extended-training", "fine-tune"} {
		if tried[name] == 0 {
			t.Errorf("no setting of %s was tried", name)
		}
	}
}

// netRecords are the records of the net.
func netRecords(t *testing.T) (records []study.Record) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", "net", "records.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		var r study.Record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	return records
}

// placesOf are the net's records of a cell. Of an experiment that the net does not run, the columns are the heads.
func placesOf(places map[string][]study.Record, experiment, cell string) []study.Record {
	if slices.Contains(inNet, experiment) {
		return places[experiment+" "+cell]
	}
	parts := strings.Split(cell, "/")
	variant := strings.Join(parts[2:len(parts)-1], "/")
	return []study.Record{{
		Experiment: experiment, Cell: cell, Dataset: study.Synthetic, Kind: figures.Synthetic, Row: parts[1], Variant: variant, Column: variant, Profile: study.Smoke, Data: "made up",
	}}
}

// severalDefaults are the defaults of the settings whose default differs between cells.
func severalDefaults(t *testing.T, e study.Experiment, options study.Options, dataset string) map[string][]string {
	t.Helper()
	cells, err := e.Cells(options, dataset)
	if err != nil {
		t.Fatal(err)
	}
	defaults := map[string][]string{}
	for _, c := range cells {
		all, err := settings.List(c.Config)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range all {
			if !slices.Contains(defaults[s.Key], s.Value) {
				defaults[s.Key] = append(defaults[s.Key], s.Value)
			}
		}
	}
	for key, values := range defaults {
		if len(values) == 1 {
			delete(defaults, key)
		}
	}
	return defaults
}
