// Package testbackend runs a test on every backend of the machine: the pure-Go engine, and XLA if its plugin is installed.
package testbackend

import (
	"flag"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dsnet/try"
	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore/backend"
)

// quickCompilation are XLA's flags for code that is generated fast and runs slowly. XLA's passes over the graph stay the same.
const quickCompilation = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true --xla_cpu_use_fusion_emitters=false"

// Trains makes XLA optimise in all tests of a package as it does for users. Its TestMain says so, where trainings run for longer than they compile.
var Trains bool

// compileQuickly sets quickCompilation unless the package [Trains], the environment has flags of XLA, or a benchmark runs. The plugin reads them once, when it is
// loaded.
var compileQuickly = sync.OnceFunc(func() {
	bench := flag.Lookup("test.bench")
	if _, ok := os.LookupEnv("XLA_FLAGS"); !ok && !Trains && (bench == nil || bench.Value.String() == "") {
		os.Setenv("XLA_FLAGS", quickCompilation)
	}
})

// Each runs test on each backend, as the subtests "go" and "xla". It is for small computations, whose compilation takes longer than they do: if it is
// the first to open XLA in a process, XLA optimises less.
func Each(t *testing.T, test func(t *testing.T, b compute.Backend)) {
	t.Helper()
	compileQuickly()
	for _, open := range backends() {
		t.Run(open.name, func(t *testing.T) { test(t, open.get(t)) })
	}
}

// Go returns the pure-Go engine. It is for tests of small computations, which would spend their time on compilation elsewhere.
func Go(t testing.TB) compute.Backend {
	t.Helper()
	return backends()[0].get(t)
}

// Fastest returns XLA if its plugin is installed, else the Go engine. It is for tests and benchmarks of one long computation. XLA then compiles as it
// does for users, unless [Each] opened it before.
func Fastest(t testing.TB) compute.Backend {
	t.Helper()
	all := backends()
	last := all[len(all)-1]
	t.Logf("backend: %s", last.name)
	return last.get(t)
}

// Soonest is [Fastest] for computations that take less time than their compilation: if it is the first to open XLA in a process, XLA optimises less.
func Soonest(t testing.TB) compute.Backend {
	t.Helper()
	compileQuickly()
	return Fastest(t)
}

// HasXLA reports whether the XLA plugin is installed.
func HasXLA() bool { return len(backends()) > 1 }

type opener struct {
	name string
	once func() (compute.Backend, error)
}

func (o opener) get(t testing.TB) compute.Backend {
	t.Helper()
	defer try.F(t.Fatal)
	return try.E1(o.once())
}

// backends opens each backend once per process, because a PJRT client is expensive and two clients share no memory.
var backends = sync.OnceValue(func() []opener {
	open := func(name, config string) opener {
		return opener{name, sync.OnceValues(func() (compute.Backend, error) { return backend.OpenConfig(config) })}
	}
	all := []opener{open("go", backend.Go)}
	if config := backend.Config(); strings.HasPrefix(config, "xla") {
		all = append(all, open("xla", config))
	}
	return all
})

// devices has what [Devices] has opened, by the number of devices.
var devices sync.Map

// Devices opens XLA for n devices, virtual ones with the CPU plugin. It skips the test if XLA is not installed, or has too few GPUs.
func Devices(t testing.TB, n int) compute.Backend {
	t.Helper()
	if !HasXLA() {
		t.Skip("several devices need XLA, which is not installed")
	}
	compileQuickly()
	if n == 1 {
		return backends()[1].get(t)
	}
	if b, ok := devices.Load(n); ok {
		return b.(compute.Backend)
	}
	b, err := backend.OpenDevices(n)
	if err != nil {
		if strings.Contains(backend.Name(), "cuda") {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	devices.Store(n, b)
	return b
}

// Values copies the variables of a store in float32.
func Values(t testing.TB, store *model.Store) map[string][]float32 {
	t.Helper()
	values := map[string][]float32{}
	for variable := range store.IterVariables() {
		if value, err := tensors.CopyFlatData[float32](variable.MustValue()); err == nil {
			values[variable.Path()] = value
		}
	}
	return values
}

// Distance is the Euclidean distance of two sets of variables over the length of the second. It leaves out the state of optimizers, and the biases of keys: they
// add the same to all scores of a softmax, so that their gradient is 0 but for rounding, which Adam scales up.
func Distance(got, want map[string][]float32) float64 {
	difference, length := 0.0, 0.0
	for path, values := range want {
		if strings.HasPrefix(path, "/optimizer") || strings.HasSuffix(path, "/qkv/bias") || strings.HasSuffix(path, "/k/bias") {
			continue
		}
		for i, x := range values {
			d := float64(got[path][i]) - float64(x)
			difference, length = difference+d*d, length+float64(x)*float64(x)
		}
	}
	return math.Sqrt(difference / length)
}

// Agree checks how far off each step of a training on several devices is, relative to one device. Each step adds in another order, and training scales roundings up, at the
// kink of a ReLU for instance. So most steps must agree to 1e-5, and all to 1e-3; a batch that is not treated as a whole is off by percents.
func Agree(t testing.TB, what string, off []float64) {
	t.Helper()
	sorted, worst := slices.Sorted(slices.Values(off)), 0.0
	for _, x := range off {
		worst = max(worst, x) // NaN stays.
	}
	middle := sorted[len(sorted)/2]
	t.Logf("%s: the middle step is off by %.1e, the worst by %.1e", what, middle, worst)
	if !(worst < 1e-3) || len(off) >= 10 && !(middle < 1e-5) {
		t.Errorf("%s: the steps are off by %.1e", what, off)
	}
}

// CheckGradient checks the gradient of f, a scalar function of float64 inputs, at every entry of every input with central differences of width 2·1e-5.
// Entries must agree up to tolerance, relative to the largest entry of the input's gradient (at least 1e-8).
func CheckGradient(t *testing.T, b compute.Backend, f func(inputs []*graph.Node) *graph.Node, tolerance float64, inputs ...*tensors.Tensor) {
	t.Helper()
	value := graph.MustNewExec(b, func(nodes []*graph.Node) *graph.Node { return f(nodes) })
	defer value.Finalize()
	gradient := graph.MustNewExec(b, func(nodes []*graph.Node) []*graph.Node { return graph.Gradient(f(nodes), nodes...) })
	defer gradient.Finalize()

	args := lo.ToAnySlice(inputs)
	got := gradient.MustCall(args...)
	const step = 1e-5
	for i, input := range inputs {
		flat := tensors.MustCopyFlatData[float64](input)
		analytic := tensors.MustCopyFlatData[float64](got[i])
		numeric := make([]float64, len(flat))
		largest := 1e-8
		for j := range flat {
			at := func(x float64) float64 {
				moved := append([]float64(nil), flat...)
				moved[j] = x
				args[i] = tensors.FromFlatDataAndDimensions(moved, input.Shape().Dimensions...)
				return value.MustCall(args...)[0].Value().(float64)
			}
			numeric[j] = (at(flat[j]+step) - at(flat[j]-step)) / (2 * step)
			largest = max(largest, math.Abs(numeric[j]))
		}
		args[i] = input
		for j := range flat {
			if diff := math.Abs(analytic[j] - numeric[j]); !(diff <= tolerance*largest) {
				t.Errorf("input %d entry %d: gradient %g, finite differences %g", i, j, analytic[j], numeric[j])
			}
		}
	}
}
