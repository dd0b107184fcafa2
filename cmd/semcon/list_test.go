package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/semcon/semcon/cmd/semcon/internal/fakemachine"
	"github.com/semcon/semcon/sccore/experiments"
)

// TestListSaysWhatIsThere checks that the engine comes first, then the data, then the same seven aligned lines for each experiment.
func TestListSaysWhatIsThere(t *testing.T) {
	m := fakemachine.New(t)
	m.Write(t, "data/cifar10/cifar-10-batches-bin/data_batch_1.bin", string(make([]byte, 3073)))
	stdout, stderr, status := outcome(t, onGo(semcon(t, m, "list", "--data", "data")))
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
	line := regexp.MustCompile(`^  (asks|reproduces|data|smoke|quick|full) +`)
	for i, e := range experiments.All() {
		lines := strings.Split(strings.TrimSpace(blocks[i]), "\n")
		if lines[0] != e.Name || len(lines) != 7 {
			t.Errorf("block %d is %q", i, blocks[i])
		}
		for _, text := range lines[1:] {
			if column := len(line.FindString(text)); column != 14 {
				t.Errorf("%s: %q begins in column %d", e.Name, text, column)
			}
		}
	}
}
