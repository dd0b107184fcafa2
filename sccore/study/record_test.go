package study

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/semcon/semcon/figures"
)

func TestRecordsRoundTrip(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "study")
	if records, err := Records(dir); err != nil || len(records) != 0 {
		t.Fatalf("records before any run: %v, %v", records, err)
	}
	for seed := range 3 {
		r := Record{Experiment: "study", Cell: "a/b/c/seed", Value: 0.1 + float64(seed), Seed: seed, Profile: Quick,
			Config: json.RawMessage(`{"rate":0.5}`), Details: map[string]float64{"loss": 1.0 / 3}}
		if err := r.Append(dir); err != nil {
			t.Fatal(err)
		}
	}
	records, err := Records(dir)
	if err != nil || len(records) != 3 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	if r := records[1]; r.Value != 1.1 || r.Seed != 1 || r.Details["loss"] != 1.0/3 || string(r.Config) != `{"rate":0.5}` || r.Place() != "study:2" {
		t.Errorf("record read back as %+v", r)
	}
}

func TestAHalfWrittenLineIsRemoved(t *testing.T) {
	for tail, want := range map[string]int{`{"cell":"cut sho`: 2, `{"cell":"by hand","config":{}}`: 3} {
		dir := t.TempDir()
		path := filepath.Join(dir, RunsFile)
		if err := os.WriteFile(path, []byte("{\"cell\":\"first\",\"config\":{}}\n"+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		if records, err := Records(dir); err != nil || len(records) != want-1 {
			t.Errorf("%d records before %s, %v", len(records), tail, err)
		}
		if err := (Record{Cell: "last", Config: json.RawMessage("{}")}).Append(dir); err != nil {
			t.Fatal(err)
		}
		records, err := Records(dir)
		if err != nil || len(records) != want || records[0].Cell != "first" || records[want-1].Cell != "last" {
			t.Errorf("records %+v, %v behind %s", records, err, tail)
		}
		if broken, err := BrokenLines(dir); err != nil || broken != nil {
			t.Errorf("broken %q, %v", broken, err)
		}
	}
}

// TestADamagedLastLineBreakLosesNoRecordSilently: the line is counted as broken, and the next record moves it aside.
func TestADamagedLastLineBreakLosesNoRecordSilently(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, RunsFile)
	write := func(cell string) {
		if err := (Record{Cell: cell, Config: json.RawMessage("{}")}).Append(dir); err != nil {
			t.Fatal(err)
		}
	}
	write("first")
	write("second")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)-1] = 'J'
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
	records, broken, err := readRecords(dir)
	if err != nil || len(records) != 1 || records[0].LeftOut != 1 || len(broken) != 1 {
		t.Errorf("records %+v, broken %q, %v", records, broken, err)
	}
	write("third")
	records, broken, err = readRecords(dir)
	if err != nil || len(records) != 2 || records[1].Cell != "third" || broken != nil {
		t.Errorf("records %+v, broken %q, %v", records, broken, err)
	}
	_, line, _ := strings.Cut(string(content), "\n")
	if aside, err := os.ReadFile(filepath.Join(dir, BrokenFile)); err != nil || string(aside) != line+"\n" {
		t.Errorf("aside %q, %v", aside, err)
	}
}

func TestBrokenLinesAreNamedAndMovedAside(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, RunsFile)
	lines := []string{`{"cell":"a","config":{}}`, `{"value":"text"}`, `{}`, `null`, `{"cell":"b","config":{}}`, `{"cell":"c", "val`, `[1]`, `{"cell":"d","config":{}}`}
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cells := func() (cells string) {
		records, err := Records(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			cells += r.Cell
		}
		return cells
	}
	if cells() != "abd" {
		t.Errorf("records %s, want a, b and d", cells())
	}
	broken, err := BrokenLines(dir)
	if err != nil || len(broken) != 5 {
		t.Fatalf("broken lines %q, %v", broken, err)
	}
	for i, line := range []int{2, 3, 4, 6, 7} {
		if want := fmt.Sprintf("%s, line %d is not a record", path, line); !strings.HasPrefix(broken[i], want) {
			t.Errorf("%q does not begin with %q", broken[i], want)
		}
	}
	for range 2 { // The second time there is nothing to move.
		if _, err := Repair(dir); err != nil {
			t.Fatal(err)
		}
		aside, err := os.ReadFile(filepath.Join(dir, "runs.broken.jsonl"))
		if err != nil || strings.Count(string(aside), "\n") != 5 {
			t.Errorf("aside %q, %v", aside, err)
		}
		if broken, err := BrokenLines(dir); err != nil || broken != nil || cells() != "abd" {
			t.Errorf("after the repair broken %q, records %s, %v", broken, cells(), err)
		}
	}
}

// TestDamagedRecordsAreLeftOut changes a byte of a line. A line of an earlier version, without a digest, is damaged if a field of it is unknown or its configuration
// is missing.
func TestDamagedRecordsAreLeftOut(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, RunsFile)
	config := EncodeConfig(toyConfig{Steps: 3})
	for seed := range 3 {
		if err := (Record{Experiment: "toy", Cell: "a", Row: "a", Column: "count", Value: 61.5, Seed: seed, Profile: Quick, Config: config}).Append(dir); err != nil {
			t.Fatal(err)
		}
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	whole := strings.SplitAfter(string(content), "\n")
	before := digestField.ReplaceAllString(strings.TrimSuffix(whole[1], "\n"), "}") + "\n"
	for _, c := range []struct{ line, old, new, why string }{
		{whole[1], `"config":`, `"cojfig":`, "its digest is not that of its content"}, {whole[1], "61.5", "16.5", "its digest is not that of its content"},
		{whole[1], `"digest"`, `"dihest"`, `unknown field "dihest"`}, {before, `"config":`, `"cojfig":`, `unknown field "cojfig"`},
		{before, string(config), "null", "the configuration is missing"}, {before, "61.5", "61.5", ""},
	} {
		if err := os.WriteFile(path, []byte(whole[0]+strings.Replace(c.line, c.old, c.new, 1)+whole[2]), 0o644); err != nil {
			t.Fatal(err)
		}
		broken, err := BrokenLines(dir)
		if said := strings.Join(broken, "; "); err != nil || said != "" != (c.why != "") || !strings.HasSuffix(said, c.why) || c.why != "" && !strings.Contains(said, path+", line 2") {
			t.Errorf("%s for %s: %q, %v", c.new, c.old, said, err)
		}
		records, err := Records(dir)
		if err != nil {
			t.Fatal(err)
		}
		results, err := newToy().Results(records, Quick)
		if err != nil {
			t.Fatal(err)
		}
		made := Table{Rows: []Row{{Key: "a"}}, Columns: Columns("", "count")}.Of(results)
		if said := strings.Contains(made.Caption, "Left out as damaged: 1 line of runs.jsonl."); said != (c.why != "") || len(made.Rows[0].Cells[0].Ours) != 3-len(broken) {
			t.Errorf("%s for %s: table of %v, %q", c.new, c.old, made.Rows, made.Caption)
		}
	}
	if err := (Record{Cell: "a"}).Append(dir); err == nil {
		t.Error("a record without a configuration is written, and cannot be read")
	}
}

// TestRecordsAreLinesOfARegularFile: a pipe would be waited for, and a long line take the memory.
func TestRecordsAreLinesOfARegularFile(t *testing.T) {
	dir := t.TempDir()
	path, record := filepath.Join(dir, RunsFile), Record{Cell: "a", Config: json.RawMessage("{}")}
	if err := syscall.Mkfifo(path, 0o644); err != nil {
		t.Skip(err)
	}
	check := func(want string) {
		t.Helper()
		_, err := Records(dir)
		for _, err := range []error{err, record.Append(dir)} {
			if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want %q", err, want)
			}
		}
	}
	check("is not a regular file")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 6<<30); err != nil {
		t.Skip(err)
	}
	check("longer than 16 MiB")
}

func TestRecordingWhereNothingCanBeWritten(t *testing.T) {
	blocked := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocked, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := (Record{Cell: "a", Config: json.RawMessage("{}")}).Append(blocked); err == nil || !strings.Contains(err.Error(), blocked) || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v is not one line naming %s", err, blocked)
	}
}

func FuzzRecords(f *testing.F) {
	f.Add([]byte("{\"cell\":\"a\",\"config\":{}}\n{\"cell\":"))
	f.Add([]byte("\n\n{}\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, RunsFile), content, 0o644); err != nil {
			t.Fatal(err)
		}
		before, err := Records(dir)
		if err != nil {
			return
		}
		if err := (Record{Cell: "new", Config: json.RawMessage("{}")}).Append(dir); err != nil {
			t.Fatal(err)
		}
		after, err := Records(dir)
		if err != nil || len(after) != len(before)+1 || after[len(before)].Cell != "new" {
			t.Errorf("%d records, then %d (%v)", len(before), len(after), err)
		}
	})
}

// FuzzRepair repairs any file of records: the records stay, and no line is broken afterwards.
func FuzzRepair(f *testing.F) {
	f.Add([]byte("{\"cell\":\"a\",\"config\":{}}\n{\"cell\":\n\n[]\n{\"cell\":\"b\",\"config\":{},\"value\":1e-300}"))
	f.Add([]byte("{\"cell\":\"a\",\"config\":{}}\n{\"cell\":\"b\",\"digest\":\"0\"}J"))
	f.Add([]byte("{\"cell\":\"a\",\"config\":{}}\r\n\x00\n{\"cell\":\"c\",\"config\":{\"a\":[1]}}\n{\"cell\""))
	f.Fuzz(func(t *testing.T, content []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, RunsFile), content, 0o644); err != nil {
			t.Fatal(err)
		}
		before, err := Records(dir)
		if err != nil {
			t.Fatal(err)
		}
		broken, err := BrokenLines(dir)
		if err != nil {
			t.Fatal(err)
		}
		moved, err := Repair(dir)
		if err != nil || moved < len(broken) || moved > len(broken)+1 { // BrokenLines leaves out a last line that a kill cut short.
			t.Errorf("moved %d lines of %q, %v", moved, broken, err)
		}
		after, err := Records(dir)
		for _, records := range [][]Record{before, after} {
			for i := range records {
				records[i].Line, records[i].LeftOut = 0, 0 // Lines move up.
			}
		}
		if err != nil || !reflect.DeepEqual(after, before) {
			t.Errorf("records %+v, then %+v (%v)", before, after, err)
		}
		if broken, err := BrokenLines(dir); err != nil || broken != nil {
			t.Errorf("still broken: %q, %v", broken, err)
		}
	})
}

func TestHashNamesTheConfiguration(t *testing.T) {
	type config struct{ Rate float64 }
	one, same := config{1}, config{1}
	if ConfigHash(one) != ConfigHash(same) {
		t.Error("equal configurations have different hashes")
	}
	if ConfigHash(config{1}) == ConfigHash(config{2}) {
		t.Error("different configurations have one hash")
	}
	if ConfigHash(placed{"a", 1}) != ConfigHash(placed{"b", 1}) || ConfigHash(placed{"a", 1}) == ConfigHash(placed{"a", 2}) {
		t.Error("the hash is not of what counts alone")
	}
}

// placed has a field that its hash leaves out.
type placed struct {
	Folder string
	Size   int
}

func (p *placed) OmitPaths() { p.Folder = "" }

// TestRecordsOfBeforeAreUpgraded: the dataset, its kind, the variant and the encoder of records that were written before there were such fields.
func TestRecordsOfBeforeAreUpgraded(t *testing.T) {
	dir := t.TempDir()
	var lines []string
	type fields struct {
		dataset, variant string
		kind             figures.DataKind
		encoder          string
	}
	var want []fields
	for _, old := range []struct {
		experiment, cell, row, data, curve string
		want                               fields
	}{
		{"transfer", "voc2012/dino-s16/linear/seed0", "dino-s16", "PASCAL VOC train: 1464 images", "", fields{"voc2012", "linear", figures.Real, ""}},
		{"transfer", "synthetic/random/fcn/seed1", "random", "synthetic scenes (set 1): 24 images", "", fields{"synthetic", "fcn", figures.Synthetic, ""}},
		{"transfer", "synthetic/random/fcn/seed2", "random", "synthetic scenes (set 1): 24 images", "cells/synthetic/random/fcn/seed2-a",
			fields{"synthetic", "fcn", figures.Synthetic, "cells/synthetic/random/fcn/seed2-a/heads.safetensors"}},
		{"detection", "coco/second/seed0", "second", "COCO", "cells/coco/second/seed0-b", fields{"coco", "", figures.Real, "cells/coco/second/seed0-b/model.safetensors"}},
		{"effect-aug", "cifar10/simclr/crop+flip/seed0", "crop+flip", "CIFAR-10 (4068 + 1017)", "", fields{"cifar10", "simclr", figures.Real, ""}},
		{"effect-aug", "images/moco/crop/seed0", "crop", "synthetics: 12 images", "", fields{"images", "moco", figures.Real, ""}},
		{"noise-tolerance", "bce/flipped0.1/seed0", "bce", "patches of synthetic classes", "", fields{"synthetic", "flipped0.1", figures.Synthetic, ""}},
		{"teacher-quality", "voc2012/cotap/share1/labels/seed2", "cotap/share1/labels", "PASCAL VOC", "", fields{"voc2012", "", figures.Real, ""}},
		{"pretrain", "images/seed0", "random init", "folder imagenet", "", fields{"images", "", figures.Real, ""}},
		{"pretrain", "images/seed0", "initialisation", "folder imagenet", "", fields{"images", "", figures.Real, "cells/images/seed0-a/init/online.safetensors"}},
		{"pretrain", "images/seed0", "full method", "folder imagenet", "cells/images/seed0-a/second/curve.jsonl",
			fields{"images", "", figures.Real, "cells/images/seed0-a/second/online.safetensors"}},
	} {
		line, err := json.Marshal(map[string]any{
			"experiment": old.experiment, "cell": old.cell, "row": old.row, "data": old.data, "curve": old.curve, "config": struct{}{},
		})
		if err != nil {
			t.Fatal(err)
		}
		lines, want = append(lines, string(line)+"\n"), append(want, old.want)
	}
	if err := os.WriteFile(filepath.Join(dir, RunsFile), []byte(strings.Join(lines, "")), 0o644); err != nil {
		t.Fatal(err)
	}
	records, err := Records(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range records {
		if got := (fields{r.Dataset, r.Variant, r.Kind, r.Encoder}); got != want[i] {
			t.Errorf("%s %s: got %+v, want %+v", r.Experiment, r.Cell, got, want[i])
		}
	}
}
