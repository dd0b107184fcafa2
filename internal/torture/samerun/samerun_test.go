package samerun

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/sccore/safetensors"
	"github.com/semcon/semcon/sccore/study"
)

func TestCompareLeavesOutTimes(t *testing.T) {
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
		result, err := Compare(whole, other)
		if err != nil || result.Files != 2 || result.Records != 1 || !slices.Equal(result.Differences, want) {
			t.Errorf("%+v, %v; want %q", result, err, want)
		}
	}
}
