package backend_test

import (
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/backend"
)

func TestEachBackendComputes(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		sum, err := graph.ExecOnce(b, func(x, y *graph.Node) *graph.Node { return graph.Add(x, y) }, float32(2), float32(3))
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
		} else {
			t.Log(err)
		}
	}
}
