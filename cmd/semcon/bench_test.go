package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/internal/steps"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/experiments"
	"github.com/semcon/semcon/sccore/study"
)

// TestBenchMeasuresSteps measures the steps of the smoke profile on the Go engine.
func TestBenchMeasuresSteps(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	m := newMachine(t)
	t.Setenv(compute.ConfigEnvVar, "go")
	stdout, stderr, status := outcome(t, semcon(t, m, "bench", "--profile", "smoke", "--steps", "2", "--format", "json"))
	var b benchmark
	if err := json.Unmarshal([]byte(stdout), &b); err != nil || status != 0 {
		t.Fatalf("status %d, %v: %s%s", status, err, stdout, stderr)
	}
	if b.Engine == "" || b.Device == "" || b.Devices != 1 || b.Profile != study.Smoke || b.Peak < 1e6 || !strings.HasPrefix(b.PeakFrom, "measured") || len(b.Steps) != len(benchSteps) {
		t.Errorf("%s", stdout)
	}
	for i, s := range b.Steps {
		if s.Step != benchSteps[i][0] || s.Batch < 2 || s.BF16 || s.H200 != 0 || s.CachedSeconds != 0 || s.DeviceMemory != 0 {
			t.Errorf("%+v", s)
		}
		for what, x := range map[string]float64{
			"images/s": s.ImagesPerSecond, "utilisation": s.Utilisation, "FLOP": s.FLOPPerStep, "FLOP/s": s.FLOPPerSecond, "input": s.InputPerSecond,
			"memory": float64(s.PeakMemory), "compiling": s.CompileSeconds,
		} {
			if !(x > 0) || math.IsInf(x, 0) {
				t.Errorf("%s: %s is %g", s.Step, what, x)
			}
		}
		if rate := s.FLOPPerSecond / s.FLOPPerStep * float64(s.Batch); !(math.Abs(rate/s.ImagesPerSecond-1) <= 1e-6) {
			t.Errorf("%s: rates do not agree: %+v", s.Step, s)
		}
		if !strings.Contains(stdout, `"images_per_second": `) || !strings.Contains(stderr, s.Step) {
			t.Errorf("stderr %q", stderr)
		}
	}
	if len(b.Full) != len(experiments.All()) {
		t.Errorf("%d full profiles", len(b.Full))
	}
	runs := map[string]float64{}
	for _, p := range b.Full {
		runs[p.Experiment] = p.Seconds
		if p.Cost == "" || (p.FLOP > 0) != (p.Seconds > 0) {
			t.Errorf("%+v", p)
		}
		// By hand: two trainings of 100,000 steps with 256 images of 119 GFLOP for each of three seeds; docs/speed.md. 160,000 steps with 16 crops, and half as many with
		// the FPN, whose neck of 384 adds 133 GFLOP to the 349 of one of 256: 102 in its convolutions, and the rest in the head's and the pyramid's.
		if want := map[string]float64{"pretrain": 3 * 6.1e18, "fine-tune": 160_000 * 16 * (941e9 + 482e9/2)}[p.Experiment]; want > 0 && math.Abs(p.FLOP/want-1) > 0.03 {
			t.Errorf("%s: %g FLOP, want %g", p.Experiment, p.FLOP, want)
		}
	}
	if text := b.text(); strings.Count(text, " hours or less, ") != 1 {
		t.Errorf("%s", text)
	}
	if runs["ablation"] < 5*runs["pretrain"]/3 || runs["theory"] != 0 || runs["detection"] == 0 || runs["over-dispersion"] == 0 {
		t.Errorf("seconds %v", runs)
	}
}

// TestPeaksOfGPUs: what the data sheet does not say is unknown.
func TestPeaksOfGPUs(t *testing.T) {
	for _, test := range []struct {
		config, gpu string
		bfloat16    bool
		want        float64
		from        string
	}{
		{"", "NVIDIA H100 80GB HBM3", true, 989.5e12, "data sheet, bfloat16"}, {"", "NVIDIA H100 80GB HBM3", false, 494.5e12, "data sheet, TF32"},
		{",tf32=false", "NVIDIA H100 80GB HBM3", true, 989.5e12, "data sheet, bfloat16"}, {",tf32=false", "NVIDIA H100 80GB HBM3", false, 0, "unknown"},
		{"", "NVIDIA T4", true, 0, "unknown"},
	} {
		t.Setenv(compute.ConfigEnvVar, "xla:/a/xla_cuda_plugin.so"+test.config)
		if peak, from := gpuPeak(test.gpu, test.bfloat16); peak != test.want || from != test.from {
			t.Errorf("%+v: %g, %s", test, peak, from)
		}
	}
	if text := (benchmark{Device: "NVIDIA T4", PeakFrom: "unknown"}).text(); !strings.HasPrefix(text, "NVIDIA T4: its peak is unknown\n") {
		t.Errorf("%s", text)
	}
}

// TestBenchFoldersDoNotPileUp: a killed process leaves its folder, and the next one removes it, but none that is in use or new, which a process may be about to lock.
func TestBenchFoldersDoNotPileUp(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	left := filepath.Join(temporary, "semcon-bench-1", "images")
	if err := os.MkdirAll(left, 0o777); err != nil {
		t.Fatal(err)
	}
	_, removeNone := benchFolder()
	if removeNone(); !datasets.IsFolder(left) {
		t.Errorf("%s, which is new, is gone", left)
	}
	earlier := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Dir(left), earlier, earlier); err != nil {
		t.Fatal(err)
	}
	first, removeFirst := benchFolder()
	second, removeSecond := benchFolder()
	if found, _ := filepath.Glob(filepath.Join(temporary, "*")); len(found) != 2 || first == second {
		t.Errorf("%v is there, want %s and %s", found, first, second)
	}
	removeFirst()
	removeSecond()
	if found, _ := filepath.Glob(filepath.Join(temporary, "*")); len(found) != 0 {
		t.Errorf("%v is left", found)
	}
}

// TestRoofsOfFullSteps: internal/aot has compiled the paper's step, in bfloat16 and in float32.
func TestRoofsOfFullSteps(t *testing.T) {
	for _, bf16 := range []string{"bf16=true", "bf16=false"} {
		s, err := steps.Of(steps.Pretrain, steps.Options{Profile: study.Full, Set: []string{bf16, "canvas=64"}}) // Images that are drawn in no time.
		if err != nil {
			t.Fatal(err)
		}
		if h200, h100 := steps.Roofs(steps.Pretrain, s); h200 <= h100 || h100 < 500 {
			t.Errorf("%s: %g and %g images/s", bf16, h200, h100)
		}
		s.Images = 12
		if h200, _ := steps.Roofs(steps.Pretrain, s); h200 != 0 {
			t.Error("another batch has a roof")
		}
	}
}

func TestBenchIsUsedWrongly(t *testing.T) {
	m := newMachine(t)
	t.Setenv(compute.ConfigEnvVar, "go")
	for line, want := range map[string]string{
		"--batch 0": "--batch 0 is not at least 1", "--steps -1": "--steps -1 is not at least 1", "--step nothing": "--step", "--devices 0": "--devices 0", "--devices 2": "devices 2",
		"--profile huge": "profile", "--data /nowhere": "--data /nowhere", "--batch 3 --step pretrain --profile smoke": "batch size 3", "--format xml": "--format", "more": "more",
	} {
		_, stderr, status := outcome(t, semcon(t, m, append([]string{"bench"}, strings.Fields(line)...)...))
		lines := strings.Split(strings.TrimSpace(stderr), "\n")
		if last := lines[len(lines)-1]; status == 0 || !strings.HasPrefix(last, "semcon bench: ") || !strings.Contains(last, want) {
			t.Errorf("%s: status %d, %q", line, status, stderr)
		}
	}
}
