package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/experiments"
	"github.com/semcon/semcon/sccore/study"
)

// TestListSaysWhatIsThere checks that the engine comes first, then the data, then the same seven aligned lines for each experiment.
func TestListSaysWhatIsThere(t *testing.T) {
	m := newMachine(t)
	m.Write(t, "data/cifar10/cifar-10-batches-bin/data_batch_1.bin", string(make([]byte, 3073)))
	stdout, stderr, status := outcome(t, onGo(semcon(t, m, "list", "--long", "--data", "data")))
	if status != 0 || stderr != "" || !strings.HasPrefix(stdout, "engine  pure Go, set by GOMLX_BACKEND\n") {
		t.Errorf("exit status %d, %q, begins with %.60q", status, stderr, stdout)
	}
	for _, want := range []string{`\n  found    CIFAR-10 train +short: 1 of 50000 images\n`, `\n  missing  CIFAR-10 test  +\S`} {
		if !regexp.MustCompile(want).MatchString(stdout) {
			t.Errorf("no line %q in\n%s", want, stdout)
		}
	}
	blocks := strings.Split(stdout, "\n\n")[2:]
	if len(blocks) != len(experiments.All()) {
		t.Fatalf("%d experiments listed", len(blocks))
	}
	line := regexp.MustCompile(`^  (asks|reproduces|data|smoke|quick|real|full) +`)
	for i, e := range experiments.All() {
		lines := strings.Split(strings.TrimSpace(blocks[i]), "\n")
		if lines[0] != e.Name || len(lines) != 4+len(e.Cost) {
			t.Errorf("block %d is %q", i, blocks[i])
		}
		for _, text := range lines[1:] {
			if column := len(line.FindString(text)); column != 14 {
				t.Errorf("%s: %q begins in column %d", e.Name, text, column)
			}
		}
	}
}

func TestStatusWithoutANameIsAnOverview(t *testing.T) {
	m := newMachine(t)
	t.Setenv("SEMCON_DATA", "")
	stdout, stderr, status := outcome(t, onGo(semcon(t, m, "status")))
	if status != 0 || stderr != "" || strings.Count(stdout, "\n") != len(experiments.All())+3 || !regexp.MustCompile(`\npretrain +0 of 1 +0 of 5 +— +—\n`).MatchString(stdout) {
		t.Errorf("exit status %d:\n%s%s", status, stdout, stderr)
	}
	r := study.Record{Experiment: "pretrain", Cell: "images/seed0", Row: "full method", Column: "rank", Kind: figures.Real, Profile: study.Real, Config: []byte(`{"init":"start.safetensors"}`)}
	if err := r.Append(filepath.Join(m.Checkout, "out", "pretrain")); err != nil {
		t.Fatal(err)
	}
	if stdout, _, _ := outcome(t, onGo(semcon(t, m, "status"))); !regexp.MustCompile(`\npretrain +0 of 1 +0 of 5 +— \+1 +—\n`).MatchString(stdout) {
		t.Errorf("with a recorded run of real:\n%s", stdout)
	}
	_, stderr, _ = outcome(t, onGo(semcon(t, m, "status", "pretrain", "--profile", "real")))
	if want := "as recorded runs start: --set init=start.safetensors\n1 recorded run with other settings, seeds or data: semcon table pretrain --profile real\n"; !strings.HasPrefix(stderr, want) {
		t.Errorf("with a recorded run of real: %s", stderr)
	}
	if _, stderr, status := outcome(t, onGo(semcon(t, m, "status", "--profile", "full"))); status != 2 || !strings.Contains(stderr, "--profile: name an experiment") {
		t.Errorf("exit status %d: %s", status, stderr)
	}
	if _, stderr, status := outcome(t, onGo(semcon(t, m, "status", "--data", "typo"))); status == 0 || !strings.Contains(stderr, "--data typo: the folder does not exist") {
		t.Errorf("exit status %d: %s", status, stderr)
	}
}

func TestListHasALineForEachExperiment(t *testing.T) {
	m := newMachine(t)
	stdout, _, status := outcome(t, onGo(semcon(t, m, "list")))
	if lines := strings.Count(stdout, "\n"); status != 0 || lines > len(experiments.All())+8 {
		t.Errorf("exit status %d, %d lines:\n%s", status, lines, stdout)
	}
	for _, e := range experiments.All() {
		if line := e.Reproduces + "; " + e.Cost[study.Quick] + "\n"; !strings.Contains(stdout, "\n  "+e.Name+" ") || !strings.Contains(stdout, line) {
			t.Errorf("%s is missing in\n%s", e.Name, stdout)
		}
	}
	stdout, _, status = outcome(t, onGo(semcon(t, m, "list", "pretrain", "noise_rate")))
	if blocks := strings.Split(stdout, "\n\n"); status != 0 || len(blocks) != 2 || !strings.HasPrefix(blocks[0], "pretrain\n  asks        ") || !strings.HasPrefix(blocks[1], "noise-rate\n") {
		t.Errorf("exit status %d:\n%s", status, stdout)
	}
	if _, stderr, status := outcome(t, onGo(semcon(t, m, "list", "pretrian"))); status != 2 || !strings.Contains(stderr, "did you mean pretrain?") {
		t.Errorf("exit status %d: %s", status, stderr)
	}
}
