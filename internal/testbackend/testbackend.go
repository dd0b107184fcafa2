// Package testbackend runs a test on every backend of the machine: the pure-Go engine, and XLA if its plugin is installed.
package testbackend

import (
	"flag"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/gomlx/compute"
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
	b, err := o.once()
	if err != nil {
		t.Fatal(err)
	}
	return b
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
