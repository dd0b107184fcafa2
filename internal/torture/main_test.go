package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/semcon/semcon/sccore/study"
)

// fake is an experiment that differs as DIFFERENCE says if an earlier call was killed.
const fake = `#!/bin/sh
out=$6/$2
case "$DIFFERENCE" in fails) echo 'semcon run: no' >&2; exit 1;; esac
[ -e "$out" ] && killed=yes
mkdir -p "$out/cells"
sleep 0.3
echo $$ > "$out/cells/lock"
echo done > "$out/cells/final"
sed "s/SECONDS/$$/" "$RECORD" > "$out/runs.jsonl.lock" && mv "$out/runs.jsonl.lock" "$out/runs.jsonl"
[ "$killed" ] || exit 0
case "$DIFFERENCE" in
file) printf 'Done\n' > "$out/cells/final";;
left) echo > "$out/cells/step-1";;
missing) rm "$out/cells/final";;
record) sed "s/SECONDS/1/; s/:42/:43/" "$RECORD" > "$out/runs.jsonl";;
twice) sed "s/SECONDS/1/" "$RECORD" >> "$out/runs.jsonl";;
esac
`

func TestTortureFindsWhatDiffers(t *testing.T) {
	dir := t.TempDir()
	binary, record := filepath.Join(dir, "semcon"), filepath.Join(dir, "record")
	if err := os.WriteFile(binary, []byte(fake), 0o755); err != nil {
		t.Fatal(err)
	}
	write := study.Record{Experiment: "fake", Cell: "a/seed0", Metric: "accuracy", Value: 42, Profile: study.Smoke, Config: study.EncodeConfig(struct{}{}), Seconds: 7}
	if err := write.Append(dir); err != nil {
		t.Fatal(err)
	}
	line, err := os.ReadFile(filepath.Join(dir, "runs.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	line = regexp.MustCompile(`,"digest":"\w*"`).ReplaceAll(line, nil) // It changes.
	if err := os.WriteFile(record, bytes.Replace(line, []byte(`"seconds":7`), []byte(`"seconds":SECONDS`), 1), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("RECORD", record)
	t.Setenv("TMPDIR", dir)
	for difference, want := range map[string]string{
		"":        "all are the same",
		"file":    "file fake/cells/final differs",
		"left":    "file fake/cells/step-1 is left over",
		"missing": "file fake/cells/final is missing",
		"record":  "record fake a/seed0, , , accuracy differs",
		"twice":   "record fake a/seed0, , , accuracy, again is left over",
		"fails":   "exit status 1: semcon run: no",
	} {
		t.Setenv("DIFFERENCE", difference)
		var out bytes.Buffer
		status := run([]string{"--semcon", binary, "--experiment", "fake", "--minutes", "0.02", "--seed", "5"}, &out)
		if (status == 0) != (difference == "") || !strings.Contains(out.String(), want) {
			t.Errorf("%q: exit status %d, printed %s", difference, status, &out)
		}
	}
}

func TestTortureRefusesFlags(t *testing.T) {
	for _, args := range [][]string{{"--minutes", "0"}, {"--minutes", "x"}, {"pretrain"}, {"--kills", "3"}} {
		if status := run(args, new(bytes.Buffer)); status != 2 {
			t.Errorf("%v: exit status %d", args, status)
		}
	}
}
