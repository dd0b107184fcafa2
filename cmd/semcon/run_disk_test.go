package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestDiskFull limits the size of files, so that a write fails midway, and then removes the limit.
// TestWhatCannotBeWrittenIsRefusedFirst gives outputs below a file. The weights do not exist, which would be found next.
func TestWhatCannotBeWrittenIsRefusedFirst(t *testing.T) {
	m, dir := newMachine(t), t.TempDir()
	write(t, nil, dir, "file")
	file := filepath.Join(dir, "file")
	for _, args := range [][]string{
		append(slices.Clone(tinyStudy), "--out", file), append(slices.Clone(tinyStudy), "--out", filepath.Join(file, "out")),
		{"features", dir, "--weights", "none.pth", "--out", filepath.Join(file, "features.npy")},
		{"import", "none.pth", "--out", filepath.Join(file, "vit.safetensors")},
		{"notebooks", "--out", file},
	} {
		stdout, stderr, status := outcome(t, onGo(semcon(t, m, args...)))
		if status != 1 || stdout != "" {
			t.Errorf("%v: exit status %d, printed %q", args, status, stdout)
		}
		wantLine(t, stderr, "semcon "+args[0]+": --out: cannot write in ", file)
	}
}

func TestDiskFull(t *testing.T) {
	m, out := newMachine(t), t.TempDir()
	study := append(tinyStudy, "--out", out)
	c := onGo(semcon(t, m))
	c.Path, c.Args = "/bin/sh", append([]string{"sh", "-c", `ulimit -f 4 && exec "$0" "$@"`, os.Args[0]}, study...)
	_, stderr, status := outcome(t, c)
	if status != 1 || !strings.Contains(stderr, "file too large") {
		t.Fatalf("exit status %d: %s", status, stderr)
	}
	last := stderr[strings.LastIndex(strings.TrimSpace(stderr), "\n")+1:]
	wantLine(t, last, "semcon run: ", out)
	err := filepath.WalkDir(out, func(path string, entry os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".safetensors") {
			t.Errorf("half-written: %s", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, stderr, status := outcome(t, onGo(semcon(t, m, study...))); status != 0 {
		t.Errorf("with room again: exit status %d: %s", status, stderr)
	}
	if got := measured(t, out); len(got) != 3 {
		t.Errorf("%d records with room again, want 3", len(got))
	}
}

func TestBrokenLinesAmongRecordsAreNamedAndRepaired(t *testing.T) {
	m := newMachine(t)
	if _, stderr, status := outcome(t, onGo(semcon(t, m, "run", "noise-tolerance", "--profile", "smoke", "--out", "records"))); status != 0 {
		t.Fatal(stderr)
	}
	path := filepath.Join(m.Checkout, "records", "noise-tolerance", "runs.jsonl")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, append([]byte("{}\n"), content...), path)
	for _, args := range [][]string{{"table", "noise-tolerance"}, {"claims"}, {"run", "noise-tolerance"}} {
		stdout, stderr, status := outcome(t, onGo(semcon(t, m, append(args, "--profile", "smoke", "--out", "records")...)))
		if status != 0 || !strings.Contains(stderr, "runs.jsonl, line 1 is not a record: the cell is missing") {
			t.Errorf("%v: exit status %d, %s%s", args, status, stdout, stderr)
		}
	}
	stdout, _, _ := outcome(t, semcon(t, m, "table", "noise-tolerance", "--profile", "smoke", "--out", "records"))
	if !strings.Contains(stdout, "Left out as damaged: 1 line of runs.jsonl.") {
		t.Errorf("the table does not say that it leaves a line out: %s", stdout)
	}
	stdout, _, _ = outcome(t, onGo(semcon(t, m, "doctor", "--repair", "--out", "records")))
	if !strings.Contains(stdout, "1 broken line moved to") {
		t.Errorf("doctor --repair: %s", stdout)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, content) {
		t.Errorf("repaired to %q, %v", after, err)
	}
	for _, verb := range []string{"table", "claims"} {
		args := []string{verb, "--out", "nowhere"}
		if verb == "table" {
			args = append(args, "noise-tolerance")
		}
		if _, stderr, status := outcome(t, semcon(t, m, args...)); status != 1 || !strings.Contains(stderr, "--out nowhere") {
			t.Errorf("%v: exit status %d, %s", args, status, stderr)
		}
	}
}
