package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dsnet/try"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore/safetensors"
	"github.com/semcon/semcon/sccore/study"
)

// runsCompared says what was compared and what differs.
type runsCompared struct {
	Files, Records int
	Differences    []string // One line each, which names the file or the record; in order.
}

// compareRuns compares two runs of an experiment that should have had the same result, such as one that was killed and one that was not: all files below two
// folders of runs, as --out names them, byte by byte but for the paths of the folders and --checkpoint-every, and their records without times and in any order.
func compareRuns(want, got string) (_ runsCompared, err error) {
	defer try.Handle(&err)
	var result runsCompared
	a, records := try.E2(readRuns(want))
	b, others := try.E2(readRuns(got))
	result.Files, result.Records = len(a), len(records)
	result.Differences = append(runDifferences("file ", a, b), runDifferences("record ", records, others)...)
	return result, nil
}

func runDifferences(kind string, want, got map[string][]byte) (lines []string) {
	for _, name := range slices.Sorted(slices.Values(lo.UniqKeys(want, got))) {
		switch a, b := want[name], got[name]; {
		case !lo.HasKey(got, name):
			lines = append(lines, kind+name+" is missing")
		case !lo.HasKey(want, name):
			lines = append(lines, kind+name+" is left over")
		case !bytes.Equal(a, b):
			lines = append(lines, kind+name+" differs")
		}
	}
	return lines
}

// checkpointTime matches the part of a command line that may differ, beside the folder itself, where files say how they were made.
var checkpointTime = regexp.MustCompile(`--checkpoint-every \S+`)

// readRuns returns the files below a folder by their path in it, and the records of its experiments by what they measure.
func readRuns(out string) (files, records map[string][]byte, err error) {
	files, records = map[string][]byte{}, map[string][]byte{}
	err = filepath.WalkDir(out, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		switch name := entry.Name(); {
		case name == "lock" || strings.HasSuffix(name, ".lock") || name == "seconds":
			return nil
		case name == "runs.jsonl":
			return readRecordsOf(filepath.Dir(path), records)
		}
		relative, err := filepath.Rel(out, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		files[relative] = checkpointTime.ReplaceAll(bytes.ReplaceAll(content, []byte(out), []byte("OUT")), nil)
		if strings.HasSuffix(path, ".safetensors") {
			files[relative] = withoutTime(files[relative])
		}
		return err
	})
	return files, records, err
}

func readRecordsOf(dir string, records map[string][]byte) (err error) {
	defer try.Handle(&err)
	all := try.E1(study.Records(dir))
	for _, r := range all {
		key := fmt.Sprintf("%s %s, %s, %s, %s", r.Experiment, r.Cell, r.Row, r.Column, r.Metric)
		for records[key] != nil {
			key += ", again"
		}
		r.Seconds, r.Finished, r.Efficiency = 0, time.Time{}, nil
		maps.DeleteFunc(r.Details, func(name string, _ float64) bool { return study.IsSpeed(name) })
		records[key] = try.E1(json.Marshal(r))
	}
	return nil
}

// withoutTime returns the content of a .safetensors file without the seconds in the note of a checkpoint, and without the checksum, which they change. Another
// content stays as it is.
func withoutTime(content []byte) []byte {
	if len(content) < 8 {
		return content
	}
	length := binary.LittleEndian.Uint64(content)
	if length > uint64(len(content)-8) {
		return content
	}
	var header map[string]json.RawMessage
	var metadata map[string]string
	var note map[string]json.RawMessage
	if json.Unmarshal(content[8:8+length], &header) != nil || json.Unmarshal(header["__metadata__"], &metadata) != nil ||
		json.Unmarshal([]byte(metadata["note"]), &note) != nil || note["seconds"] == nil {
		return content
	}
	delete(note, "seconds")
	delete(metadata, "semcon.sha256")
	metadata["note"] = encodedJSON(note)
	header["__metadata__"] = json.RawMessage(encodedJSON(metadata))
	return append([]byte(encodedJSON(header)), content[8+length:]...)
}

func encodedJSON(x any) string {
	encoded, err := json.Marshal(x)
	if err != nil {
		panic(err) // Maps of text always encode.
	}
	return string(encoded)
}

func TestComparedRunsLeaveOutTimes(t *testing.T) {
	run := func(seconds string, weight float32, time, curve string) string {
		dir := t.TempDir()
		r := study.Record{Experiment: "e", Cell: "a", Value: 1, Config: study.EncodeConfig(struct{}{}), Seconds: float64(len(time)),
			Details: map[string]float64{"crops_per_second": float64(len(time)), "frames/s": float64(len(time)), "peak_memory_gb": float64(len(time))}}
		if err := r.Append(filepath.Join(dir, "e")); err != nil {
			t.Fatal(err)
		}
		named := map[string]*tensors.Tensor{"w": tensors.FromValue([]float32{weight})}
		if err := safetensors.Write(filepath.Join(dir, "e", "w.safetensors"), named, map[string]string{"note": `{"seconds":` + seconds + `,"losses":[2]}`}); err != nil {
			t.Fatal(err)
		}
		for name, content := range map[string]string{"lock": time, "seconds": time, "a.lock": time, "curve": curve} {
			if err := os.WriteFile(filepath.Join(dir, "e", name), []byte(content), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	whole := run("1.5", 3, "a", "down")
	for other, want := range map[string][]string{
		run("2.25", 3, "bb", "down"): nil,
		run("1.5", 4, "a", "down"):   {"file e/w.safetensors differs"},
		run("1.5", 3, "a", "up"):     {"file e/curve differs"},
	} {
		result, err := compareRuns(whole, other)
		if err != nil || result.Files != 2 || result.Records != 1 || !slices.Equal(result.Differences, want) {
			t.Errorf("%+v, %v; want %q", result, err, want)
		}
	}
}
