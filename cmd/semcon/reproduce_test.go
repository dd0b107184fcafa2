package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/semcon/semcon/sccore/experiments"
)

// TestReproduceResumesAndReportsFailures runs an experiment that needs the encoders of another one, which are missing, and one that needs nothing.
func TestReproduceResumesAndReportsFailures(t *testing.T) {
	m := newMachine(t)
	reproduce := func(names ...string) (stdout, stderr string, status int) {
		return outcome(t, onGo(semcon(t, m, append(append([]string{"reproduce"}, names...), "--profile", "smoke", "--out", "results")...)))
	}
	read := func(name string) string {
		content, err := os.ReadFile(filepath.Join(m.Checkout, "results", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	stdout, stderr, status := reproduce("noise-tolerance", "theory")
	if status != 1 || stdout != "wrote results/report.html\n" || !strings.HasSuffix(stderr, "semcon reproduce: 1 of 2 experiments failed: theory; the report says why\n") {
		t.Errorf("exit status %d, said %q and %q", status, stdout, stderr)
	}
	for _, line := range []string{"1 of 2: theory\n", "theory failed: no trained encoder", "2 of 2: noise-tolerance\n"} {
		if !strings.Contains(stderr, line) {
			t.Errorf("%q is not said in\n%s", line, stderr)
		}
	}
	records, page := read("noise-tolerance/runs.jsonl"), read("report.html")
	if strings.Count(records, "\n") != 4 || !strings.Contains(page, "<b>Failed:</b> no trained encoder") {
		t.Errorf("the page does not say what failed, or there are not 4 records:\n%s", records)
	}
	if !strings.Contains(page, "semcon run theory --profile smoke --out results\n") {
		t.Error("the page does not say how to make what is missing")
	}

	// A kill has lost the last two records.
	lines := strings.SplitAfter(records, "\n")
	if err := os.WriteFile(filepath.Join(m.Checkout, "results", "noise-tolerance", "runs.jsonl"), []byte(lines[0]+lines[1]), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, stderr, status := reproduce("noise-tolerance"); status != 0 {
		t.Errorf("exit status %d, said %q", status, stderr)
	}
	if again := read("noise-tolerance/runs.jsonl"); strings.Count(again, "\n") != 4 || !strings.HasPrefix(again, lines[0]+lines[1]) {
		t.Errorf("the rest was not run:\n%s", again)
	}
	if page := read("report.html"); strings.Contains(page, "Failed:") {
		t.Error("the page names an old failure")
	}
}

func TestReportAndCompareRefuse(t *testing.T) {
	m := newMachine(t)
	m.Write(t, "results/keep", "")
	for _, test := range []struct {
		args   []string
		status int
		part   string
	}{
		{[]string{"report", "--out", "none"}, 1, "--out none: the folder does not exist"},
		{[]string{"report", "--out", "results", "--format", "doc"}, 2, `--format "doc": want html or pdf`},
		{[]string{"report", "--out", "results", "--to", "results"}, 1, "--to results: is a folder"},
		{[]string{"report", "--out", "results", "--profile", "huge"}, 2, `--profile "huge"`},
		{[]string{"reproduce", "none"}, 2, `unknown experiment "none"`},
		{[]string{"reproduce", "--parallel", "-1"}, 2, "--parallel -1 is not at least 0"},
		{[]string{"compare", "pretrain"}, 2, "want two runs, such as ablation/line2, got 1 (pretrain)"},
		{[]string{"compare", "pretrain", "pretrain", "--out", "results"}, 1, "run pretrain: no records in results/pretrain: there is no such folder, and none at pretrain"},
		{[]string{"compare", "results", "pretrain", "--out", "none"}, 1, "run results: no records in results, and no training of \"semcon train\""},
		{[]string{"compare", "a", "b", "--to", "x.png"}, 2, "--to x.png: want a file that ends with .html"},
	} {
		_, stderr, status := outcome(t, onGo(semcon(t, m, test.args...)))
		if status != test.status {
			t.Errorf("semcon %s: exit status %d, want %d", strings.Join(test.args, " "), status, test.status)
		}
		wantLine(t, stderr, "semcon "+test.args[0]+": ", test.part)
	}
	c := onGo(semcon(t, m, "report", "--out", "results", "--format", "pdf"))
	c.Env = append(c.Env, "PATH="+t.TempDir())
	_, stderr, status := outcome(t, c)
	if status != 1 {
		t.Errorf("without a browser: exit status %d", status)
	}
	wantLine(t, stderr, "--format pdf: a PDF needs a browser", "open the HTML page in yours and print it")
}

// TestExperimentsAreInTheOrderOfNeeds: what reads the runs of others comes after them.
func TestExperimentsAreInTheOrderOfNeeds(t *testing.T) {
	place := map[string]int{}
	for i, e := range experiments.All() {
		place[e.Name] = i
	}
	for name, needed := range map[string]string{
		"theory": "effect-aug", "main": "pretrain", "transfer": "pretrain", "fine-tune": "pretrain", "detection": "pretrain", "video": "pretrain", "noise-rate": "pretrain", "centroid": "pretrain", "patch-recall": "pretrain",
	} {
		if place[name] <= place[needed] {
			t.Errorf("%s comes before %s", name, needed)
		}
	}
}
