// Package testbackend runs a test on every backend of the machine: the pure-Go engine always, XLA where its plugin is installed.
package testbackend

import (
	"strings"
	"sync"
	"testing"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/sccore/backend"
)

// Each runs test once per backend, as sub-tests "go" and "xla", so that the runner's own lines say which one ran.
func Each(t *testing.T, test func(t *testing.T, b compute.Backend)) {
	t.Helper()
	for _, open := range backends() {
		t.Run(open.name, func(t *testing.T) { test(t, open.get(t)) })
	}
}

// Fastest returns XLA where its plugin is installed and the Go engine otherwise, for tests and benchmarks of one long computation.
func Fastest(t testing.TB) compute.Backend {
	t.Helper()
	all := backends()
	last := all[len(all)-1]
	t.Logf("backend: %s", last.name)
	return last.get(t)
}

// HasXLA tells whether the XLA plugin is installed.
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

// backends opens each backend once per process: a PJRT client is not cheap, and two of them share no memory.
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
