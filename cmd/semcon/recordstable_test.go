package main

import (
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/semcon/semcon/sccore/study"
)

// TestRecordsAsOneTable: a line for each number, the same in both formats.
func TestRecordsAsOneTable(t *testing.T) {
	m := newMachine(t)
	out := t.TempDir()
	for seed := range 2 {
		r := study.Record{
			Experiment: "main", Cell: "synthetic/random/seed0", Dataset: "synthetic", Kind: "synthetic", Row: "random", Column: "mIoU", Metric: "mIoU, linear", Unit: "%",
			Value: 1.5, Seed: seed, Profile: study.Smoke, Config: json.RawMessage("{}"), ConfigHash: "abc",
			Finished: time.Unix(1e9, 0).UTC(), Details: map[string]float64{"z": 2, "accuracy": 3},
		}
		if err := r.Append(study.Folder(out, "main")); err != nil {
			t.Fatal(err)
		}
	}
	text, stderr, status := outcome(t, semcon(t, m, "records", "--out", out))
	if status != 0 {
		t.Fatalf("exit status %d: %s", status, stderr)
	}
	lines, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(lines) != 1+2*3 {
		t.Fatalf("%d lines, %v", len(lines), err)
	}
	text, _, _ = outcome(t, semcon(t, m, "records", "main", "--out", out, "--format", "json"))
	var all []map[string]any
	if err := json.Unmarshal([]byte(text), &all); err != nil || len(all) != 6 || len(all[0]) != len(lines[0]) {
		t.Fatalf("%d numbers, %v", len(all), err)
	}
	text, _, _ = outcome(t, semcon(t, m, "records", "main", "--out", out, "--format", "parquet"))
	written, err := parquet.Read[study.Quantity](strings.NewReader(text), int64(len(text)))
	if err != nil || len(written) != 6 || strings.Join(written[1].Texts(), "|") != strings.Join(lines[2], "|") {
		t.Fatalf("%+v, %v", written, err)
	}
	for i, want := range []string{"mIoU, linear % 1.5", "accuracy  3", "z  2"} {
		line := lines[1+i]
		if got := line[8] + " " + line[9] + " " + line[10]; got != want || all[i]["quantity"] != line[8] {
			t.Errorf("line %d: %q, %v, want %q", i, got, all[i], want)
		}
		for _, column := range lines[0] {
			if _, ok := all[i][column]; !ok {
				t.Errorf("JSON has no %s", column)
			}
		}
	}
}
