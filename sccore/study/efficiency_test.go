package study

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/sccore/train"
)

func TestEfficiency(t *testing.T) {
	used := train.Usage{Compiling: 3 * time.Second, Steps: 10, Stepping: 4 * time.Second, Waiting: time.Second}
	work := train.Workload{Images: 256, FLOPs: 256 * 1e11, BFloat16: true}
	e := EfficiencyOf(used, work, "NVIDIA H100 80GB HBM3", 2)
	if e.ImagesPerSecond != 640 || e.FLOPPerImage != 1e11 || e.WaitingShare != 0.25 || e.CompileSeconds != 3 || e.Devices != 2 || e.PeakMemory < 1<<20 {
		t.Errorf("%+v", e)
	}
	if want := 640 * 1e11 / 989.5e12 / 2; !(math.Abs(e.Utilisation-want) <= 1e-12) {
		t.Errorf("utilisation %g, want %g", e.Utilisation, want)
	}
	t.Setenv(compute.ConfigEnvVar, "xla:/a/xla_cuda_plugin.so,tf32=false")
	half := EfficiencyOf(used, work, e.Device, 2).Utilisation
	if work.BFloat16 = false; half != e.Utilisation || EfficiencyOf(used, work, e.Device, 2).Utilisation != 0 {
		t.Errorf("utilisation %g in bfloat16, and float32 without TF32 has one", half)
	}
	if note := e.Note(); note != "  640 images/s, 3% of peak, 25% waiting for input" {
		t.Errorf("note %q", note)
	}
	for device, want := range map[string]float64{"": 0, "NVIDIA T4": 0, "NVIDIA H200 NVL": 835.5e12, "NVIDIA H200": 989.5e12, "NVIDIA A100-SXM4-80GB": 312e12} {
		if got, _ := PeakOf(device, true); got != want {
			t.Errorf("peak of %q: %g, want %g", device, got, want)
		}
	}
	// A launch that moves 4.8 GB takes a millisecond on an H200, and one of 989.5 GFLOP in bfloat16 too, or two in TF32.
	for _, launch := range []struct {
		bytes, flop float64
		bfloat16    bool
		want        float64
	}{{4.8e9, 0, true, 1e-3}, {4.8e9, 494.5e9, true, 1e-3}, {1e9, 989.5e9, true, 1e-3}, {1e9, 989e9, false, 2e-3}} {
		if got := Roof("NVIDIA H200", launch.bytes, launch.flop, launch.bfloat16); !(math.Abs(got-launch.want) <= 1e-12) {
			t.Errorf("%+v: roof %g s", launch, got)
		}
	}
	unknown, err := json.Marshal(EfficiencyOf(train.Usage{}, train.Workload{}, "", 1))
	if err != nil || strings.Contains(string(unknown), "utilisation") || strings.Contains(string(unknown), "images_per") {
		t.Errorf("%s, %v: what is unknown is left out", unknown, err)
	}
}
