package main

import (
	"os"
	"strings"
	"testing"
)

// row returns the doctor's line on one thing.
func row(t *testing.T, report, what string) string {
	t.Helper()
	for line := range strings.Lines(report) {
		if strings.HasPrefix(line[9:], what) {
			return line
		}
	}
	t.Fatalf("nothing about %q in:\n%s", what, report)
	return ""
}

func TestDoctorNamesWhatMends(t *testing.T) {
	m := newMachine(t)
	t.Setenv("GOMLX_BACKEND", "go")
	stdout, stderr, status := outcome(t, semcon(t, m, "doctor"))
	if status != 1 {
		t.Errorf("exit status %d before set-up", status)
	}
	wantLine(t, stderr, "semcon doctor:", "broken")
	if line := row(t, stdout, "Go backend"); !strings.HasPrefix(line, "ok ") {
		t.Error(line)
	}
	if line := row(t, stdout, "engine"); !strings.Contains(line, "pure Go, set by GOMLX_BACKEND") {
		t.Error(line)
	}
	for _, what := range []string{"Jupyter", "Go kernel", "completion", "settings"} {
		if line := row(t, stdout, what); !strings.HasPrefix(line, "broken ") || !strings.Contains(line, setupCommand) {
			t.Error(line)
		}
	}
	if line := row(t, stdout, "data"); !strings.HasPrefix(line, "missing ") || !strings.Contains(line, "SEMCON_DATA") {
		t.Error(line)
	}
}

// A machine that runs the binary alone has no Go, and lacks nothing but notebooks.
func TestDoctorWithoutGo(t *testing.T) {
	m := newMachine(t)
	t.Setenv("GOMLX_BACKEND", "go")
	m.Without(t, "go")
	t.Setenv("PATH", os.Getenv("PATH")+":/bin")
	stdout, _, status := outcome(t, semcon(t, m, "doctor"))
	if line := row(t, stdout, "notebooks"); status != 0 || !strings.HasPrefix(line, "missing ") || !strings.Contains(line, "go is not on the PATH") {
		t.Errorf("exit status %d, %s", status, line)
	}
}

func TestDoctorAfterSetUp(t *testing.T) {
	m := newMachine(t)
	t.Setenv("GOMLX_BACKEND", "go")
	t.Setenv("FAKE_EXECUTION", "echo JupyterLab 4")
	outcome(t, semcon(t, m, "lab", "--setup-only"))
	m.Write(t, ".semcon/bin/gonb", "") // Not a program.
	m.Write(t, "data/cifar10/cifar-10-batches-bin/data_batch_1.bin", string(make([]byte, 3073)))
	stdout, _, status := outcome(t, semcon(t, m, "doctor", "--data", "data"))
	if status != 1 {
		t.Errorf("exit status %d with a broken kernel", status)
	}
	for what, want := range map[string]string{"Go kernel": "broken", "Jupyter": "ok", "CIFAR-10 train": "ok", "CIFAR-10 test": "missing"} {
		if line := row(t, stdout, what); !strings.HasPrefix(line, want+" ") {
			t.Error(line)
		}
	}
	if line := row(t, stdout, "CIFAR-10 train"); !strings.Contains(line, "1 of 50000") {
		t.Error(line)
	}
	if line := row(t, stdout, "CIFAR-10 test"); !strings.Contains(line, "semcon data fetch cifar10") {
		t.Error(line)
	}
}

func TestDoctorOnABackendThatDoesNotOpen(t *testing.T) {
	m := newMachine(t)
	t.Setenv("GOMLX_BACKEND", "xla:/nowhere/plugin.so")
	stdout, _, status := outcome(t, semcon(t, m, "doctor", "--data", "nowhere"))
	if line := row(t, stdout, "backend in use"); status != 1 || !strings.HasPrefix(line, "broken ") || !strings.Contains(line, "/nowhere/plugin.so") {
		t.Errorf("exit status %d: %s", status, line)
	}
	if line := row(t, stdout, "data"); !strings.HasPrefix(line, "broken ") || !strings.Contains(line, "nowhere") {
		t.Error(line)
	}
}

func TestDoctorEmptiesTheCacheOfPrograms(t *testing.T) {
	m := newMachine(t)
	t.Setenv("GOMLX_BACKEND", "go")
	t.Setenv("SEMCON_XLA_CACHE", "programs")
	m.Write(t, "programs/a.program", "0123456789")
	m.Write(t, "programs/other", "somebody's")
	stdout, _, _ := outcome(t, semcon(t, m, "doctor"))
	if line := row(t, stdout, "compiled programs"); !strings.HasPrefix(line, "ok ") || !strings.Contains(line, "1 program, 0.0 MB in programs") {
		t.Error(line)
	}
	stdout, _, _ = outcome(t, semcon(t, m, "doctor", "--clear-cache"))
	if line := row(t, stdout, "compiled programs"); !strings.Contains(line, "0 programs") {
		t.Error(line)
	}
	t.Setenv("SEMCON_XLA_CACHE", "off")
	stdout, _, _ = outcome(t, semcon(t, m, "doctor"))
	if line := row(t, stdout, "compiled programs"); !strings.HasPrefix(line, "missing ") || !strings.Contains(line, "SEMCON_XLA_CACHE is off") {
		t.Error(line)
	}
}
