package main

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/semcon/semcon/internal/steps"
	"github.com/semcon/semcon/sccore/study"
)

// program is an optimised program as XLA prints it: a product of bfloat16, one of float32 in a loop of three trips, a fusion that reads a slice, one that
// sorts, and two scatters.
const program = `HloModule step, is_scheduled=true, input_output_alias={ {0}: (1, {}, may-alias) }, entry_computation_layout={(bf16[1024,2048]{1,0})->f32[1000000]{0}}

%fused (param_0: f32[1000000]) -> f32[10] {
  %param_0 = f32[1000000]{0} parameter(0)
  ROOT %slice.1 = f32[10]{0} slice(%param_0), slice={[0:10]}
}

%sorting (param_0: f32[10]) -> f32[10] {
  %param_0 = f32[10]{0} parameter(0)
  ROOT %sort.1 = f32[10]{0} sort(%param_0), dimensions={0}, to_apply=%less
}

%body (arg: f32[512,512]) -> f32[512,512] {
  %arg = f32[512,512]{1,0} parameter(0)
  ROOT %gemm.2 = f32[512,512]{1,0} custom-call(%arg, %arg), custom_call_target="__cublas$lt$matmul", backend_config={"gemm_backend_config":{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"]}}}
}

ENTRY %main (a: bf16[1024,2048], w: f32[1000000]) -> f32[1000000] {
  %a = bf16[1024,2048]{1,0} parameter(0)
  %w = f32[1000000]{0} parameter(1)
  %gemm.1 = bf16[1024,1024]{1,0} custom-call(%a, %a), custom_call_target="__cublas$lt$matmul", backend_config={"gemm_backend_config":{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"]}}}
  %loop = f32[512,512]{1,0} while(%gemm.1), condition=%cond, body=%body, backend_config={"known_trip_count":{"n":"3"}}
  %part = f32[10]{0} fusion(%w), kind=kLoop, calls=%fused
  %sorted = f32[10]{0} fusion(%part), kind=kLoop, calls=%sorting
  %safe = f32[10]{0} scatter(%part, %part, %part), unique_indices=true, to_apply=%add
  ROOT %racing = f32[10]{0} scatter(%part, %part, %part), to_apply=%add
}
`

func TestFiguresOfAProgram(t *testing.T) {
	var f figures
	if err := f.read(program, steps.Step{Images: 128, Pairs: 128 * 38_416}); err != nil {
		t.Fatal(err)
	}
	const wide, narrow = 2 * 3 * 512 * 512 * 512, 2 * 1024 * 1024 * 2048
	moved := 2.0*(1024*2048+1024*1024) + 3*4*2*512*512 + 2*4*10 + 8*2*4*10 + 2*2*4*10
	for what, pair := range map[string][2]float64{
		"launches": {float64(f.Launches), 1 + 3 + 1 + 1 + 2}, "racing": {float64(f.Racing), 1}, "donated": {f.DonatedGB, 0.004},
		"TFLOP": {f.TFLOP, (wide + narrow) / 1e12}, "float32": {f.Float32, float64(wide) / (wide + narrow)}, "moved": {f.MovedGB, moved / 1e9},
	} {
		if !(math.Abs(pair[0]-pair[1]) <= 1e-9*math.Abs(pair[1])) {
			t.Errorf("%s: %g, want %g", what, pair[0], pair[1])
		}
	}
	if least := 1e3 * study.Roof(h200, 0, narrow, true); f.RoofMS < least || f.RoofMS > 3*least {
		t.Errorf("roof %g ms, the largest product takes %g", f.RoofMS, least)
	}
	if f.H100MS <= f.RoofMS || f.H100MS > 1.5*f.RoofMS {
		t.Errorf("roof %g ms, on an H100 %g", f.RoofMS, f.H100MS)
	}
	var out bytes.Buffer
	table(&out, []figures{{Name: "before", RoofMS: 154.5}, f})
	if !strings.Contains(out.String(), "before") || !strings.Contains(out.String(), "154.5") {
		t.Errorf("table:\n%s", out.String())
	}
	out.Reset()
	f.list(&out, 1)
	if lines := strings.Split(out.String(), "\n"); len(lines) != 3 || !strings.Contains(lines[1], "1  __cublas$lt$matmul bf16[1024 2048], bf16[1024 2048] → bf16[1024 1024] gemm.1") {
		t.Errorf("the launches with most of the roof:\n%s", out.String())
	}
}

func TestWhatIsNoProgramIsRefused(t *testing.T) {
	var f figures
	if err := f.read("nothing", steps.Step{Images: 128, Pairs: 128 * 38_416}); err == nil {
		t.Error("no error")
	}
}
