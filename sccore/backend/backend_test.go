package backend_test

import (
	"math"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/backend"
)

func TestEachBackendComputes(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		sum, err := graph.CallOnce(b, func(x, y *graph.Node) *graph.Node { return graph.Add(x, y) }, float32(2), float32(3))
		if err != nil {
			t.Fatal(err)
		}
		if got := sum.Value().(float32); got != 5 {
			t.Errorf("2 + 3 = %v on %s", got, b.Name())
		}
	})
}

func TestOpenConfigNamesWhatIsWrong(t *testing.T) {
	for _, config := range []string{"nonsense", "xla:/nowhere/plugin.so"} {
		if _, err := backend.OpenConfig(config); err == nil {
			t.Errorf("OpenConfig(%q) opened", config)
		} else if name, _, _ := strings.Cut(config, ":"); !strings.Contains(err.Error(), name) {
			t.Errorf("OpenConfig(%q): %v", config, err)
		}
	}
}

// TestConfigFindsInstalledPlugins names a plugin by its kind, as GoMLX does, and finds the installed one.
func TestConfigFindsInstalledPlugins(t *testing.T) {
	for _, config := range []string{"go", "xla:/nowhere/plugin.so", "xla:tpu"} {
		t.Setenv(compute.ConfigEnvVar, config)
		if got := backend.Config(); got != config {
			t.Errorf("%q became %q", config, got)
		}
	}
	for _, plugin := range backend.Plugins() {
		kind := strings.Split(filepath.Base(plugin), "_")[1]
		for config, want := range map[string]string{"xla:" + kind: "xla:" + plugin, "xla:" + kind + ",tf32=false": "xla:" + plugin + ",tf32=false"} {
			t.Setenv(compute.ConfigEnvVar, config)
			if got := backend.Config(); backend.CanLoadXLA() && got != want {
				t.Errorf("%q became %q, want %q", config, got, want)
			}
		}
	}
}

// TestGoEngineDoesNotWaitForItself has more large parallel operations than there are workers.
func TestGoEngineDoesNotWaitForItself(t *testing.T) {
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		t.Fatal(err)
	}
	exec := graph.MustNewExec(b, func(x *graph.Node) *graph.Node {
		var parts []*graph.Node
		for i := range 8 * runtime.GOMAXPROCS(0) {
			parts = append(parts, graph.Erf(graph.MulScalar(x, 1+float64(i))))
		}
		return graph.ReduceAllMean(graph.Stack(parts, 0))
	})
	x := make([]float32, 300_000)
	for i := range x {
		x[i] = 10
	}
	done := make(chan float32)
	go func() {
		mean := float32(0)
		for range 5 {
			mean = exec.MustCall1(x).Value().(float32)
		}
		done <- mean
	}()
	select {
	case mean := <-done:
		if !(math.Abs(float64(mean)-1) <= 1e-3) {
			t.Errorf("the mean is %g", mean)
		}
	case <-time.After(time.Minute):
		t.Fatal("the engine is stuck")
	}
}
