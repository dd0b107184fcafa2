package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore/study"
)

const root = "../.."

// TestDocsTablesAreOfTheRecords: the pages have the tables that the file of numbers gives, and each of the file's tables stands on a page.
func TestDocsTablesAreOfTheRecords(t *testing.T) {
	all, err := study.ReadCurve[number](filepath.Join(root, numbersFile))
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	pages, err := filepath.Glob(filepath.Join(root, "docs/*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, filepath.Join(root, "README.md")) {
		content, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		want, err := filled(string(content), all)
		if err != nil || want != string(content) {
			t.Errorf("%s parts from %s, %v; \"go run ./internal/docs\" writes it", page, numbersFile, err)
		}
		for _, match := range markers.FindAllStringSubmatch(want, -1) {
			shown[match[1]] = true
		}
	}
	for _, n := range all {
		if !shown[n.Table] {
			t.Errorf("no page shows the table %s", n.Table)
			shown[n.Table] = true
		}
		if n.Table == "" || n.Row == "" || n.Column == "" || n.Value == "" || n.Seeds < 1 || n.Profile == "" || len(n.Commit) < 7 || n.Data == "" {
			t.Errorf("incomplete: %+v", n)
		}
		if _, err := time.Parse(time.DateOnly, n.Date); err != nil {
			t.Error(err)
		}
	}
}

// TestDocsNumbersAreInTheRecords: a decimal number in the sentences of pages about results is one of the file's numbers.
func TestDocsNumbersAreInTheRecords(t *testing.T) {
	all, err := study.ReadCurve[number](filepath.Join(root, numbersFile))
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]string{} // The tables that a number is in.
	for _, n := range all {
		for _, value := range append(strings.Split(n.Images, " to "), string(n.Value), string(n.SD), string(n.Low), string(n.High), string(n.Paper)) {
			known[strings.TrimPrefix(value, "-")] += " " + strings.TrimPrefix(n.Table, "real-")
		}
	}
	code := regexp.MustCompile("(?s)```.*?```|`[^`\n]*`|\\]\\([^)]*\\)|<!-- table.*?<!-- end -->")
	decimal := regexp.MustCompile(`\b\d+(?:\.\d+)+\b`)
	for _, page := range []string{"README.md", "docs/results.md", "docs/evidence.md"} {
		content, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		text := code.ReplaceAllString(string(content), "")
		for _, number := range decimal.FindAllString(text, -1) {
			if known[number] == "" && strings.Count(number, ".") == 1 { // Two make a version.
				t.Errorf("%s prints %s, which is in no line of %s", page, number, numbersFile)
			}
		}
		for _, row := range regexp.MustCompile("(?m)^\\| \\[?`([a-z-]+)`.*$").FindAllStringSubmatch(string(content), -1) { // About one experiment.
			for _, number := range decimal.FindAllString(code.ReplaceAllString(row[0], ""), -1) {
				if !strings.Contains(known[number], " "+row[1]) {
					t.Errorf("%s prints %s in the row of %s, which is in none of its tables in %s", page, number, row[1], numbersFile)
				}
			}
		}
	}
}

func TestNumbersOfRuns(t *testing.T) {
	out := t.TempDir()
	for seed, values := range [][2]float64{{40, 43}, {42, 44}, {44, 45}, {42, 90}} { // The last one is below the gate.
		for i, row := range []string{"control", "full"} {
			r := study.Record{
				Experiment: "pretrain", Cell: "images/seed0", Metric: "mIoU", Config: []byte("{}"), Row: row, Column: "mIoU", Unit: "%", Value: values[i], Seed: seed, Profile: study.Quick,
				Versions: map[string]string{"semcon": "0123456789abcdef"}, Finished: time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC),
			}
			if row == "full" {
				r.Details = map[string]float64{study.DetailGate: lo.Ternary(seed < 3, 2., 1)}
			}
			if err := r.Append(study.Folder(out, "pretrain")); err != nil {
				t.Fatal(err)
			}
		}
	}
	all, err := measured("mine", out, "pretrain", "quick", "scenes", []string{"linear=mIoU"}, []string{"alone=control", "gain=full−control"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := table(all, "mine", "in %")
	want := "| in % | linear |\n|---|--:|\n| alone | 42.0 ± 1.6 |\n| gain | 2.0 (−0.5 to 4.5) |\n\n*Profile quick, 3 to 4 seeds, commit 0123456 of 2026-11-26. Data: scenes. Differences with CoTAP leave out 1 seed below the gate.*\n"
	if err != nil || got != want {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	all[1].Images = "-1.0 to 3.0"
	if got, err := table(all, "mine", "in %"); err != nil || !strings.Contains(got, " 2.0 (−0.5 to 4.5) [−1.0 to 3.0] |\n") || !strings.HasSuffix(got, "Data: scenes. Differences with CoTAP leave out 1 seed below the gate. In square brackets: the 95 % interval over test images.*\n") {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := measured("mine", out, "pretrain", "full", "", nil, []string{"alone=control"}); err == nil {
		t.Error("no error without records")
	}
	if _, err := table(all, "other", ""); err == nil {
		t.Error("no error for a table without numbers")
	}
	edited := study.Record{
		Experiment: "pretrain", Cell: "images/seed9", Metric: "mIoU", Config: []byte("{}"), Row: "control", Column: "mIoU", Value: 41, Seed: 9, Profile: study.Quick,
		Versions: map[string]string{"semcon": "0123456789abcdef-modified"},
	}
	if err := edited.Append(study.Folder(out, "pretrain")); err != nil {
		t.Fatal(err)
	}
	if _, err := measured("mine", out, "pretrain", "quick", "", []string{"linear=mIoU"}, []string{"alone=control"}); err == nil || !strings.Contains(err.Error(), "without changes") {
		t.Errorf("%v, want an error for a record of edited files", err)
	}
}
