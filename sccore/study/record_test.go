package study

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
	if r := records[1]; r.Value != 1.1 || r.Seed != 1 || r.Details["loss"] != 1.0/3 || string(r.Config) != `{"rate":0.5}` {
		t.Errorf("record read back as %+v", r)
	}
}

func TestAHalfWrittenLineIsClosedOff(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, runsFile)
	if err := (Record{Cell: "first"}).Append(dir); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(`{"cell":"cut sho`); err != nil {
		t.Fatal(err)
	}
	file.Close()
	if records, err := Records(dir); err != nil || len(records) != 1 {
		t.Errorf("%d records after a kill in a write, %v; want the whole one", len(records), err)
	}
	if err := (Record{Cell: "second"}).Append(dir); err != nil {
		t.Fatal(err)
	}
	records, err := Records(dir)
	if err != nil || len(records) != 2 || records[1].Cell != "second" {
		t.Errorf("records %+v, %v; want first and second", records, err)
	}
}

func TestABrokenRecordNamesFileAndLine(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, runsFile)
	if err := os.WriteFile(path, []byte("{\"cell\":\"good\"}\n{\"value\":\"text\"}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Records(dir); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("error %v does not name %s and line 2", err, path)
	}
}

func TestRecordingWhereNothingCanBeWritten(t *testing.T) {
	blocked := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocked, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := (Record{}).Append(blocked); err == nil || !strings.Contains(err.Error(), blocked) || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v is not one line naming %s", err, blocked)
	}
}

func FuzzRecords(f *testing.F) {
	f.Add([]byte("{\"cell\":\"a\"}\n{\"cell\":"))
	f.Add([]byte("\n\n{}\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, runsFile), content, 0o644); err != nil {
			t.Fatal(err)
		}
		before, err := Records(dir)
		if err != nil {
			return
		}
		if err := (Record{Cell: "new"}).Append(dir); err != nil {
			t.Fatal(err)
		}
		after, err := Records(dir)
		if err != nil || len(after) != len(before)+1 || after[len(before)].Cell != "new" {
			t.Errorf("%d records, then %d (%v)", len(before), len(after), err)
		}
	})
}
