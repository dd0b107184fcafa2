package xlacache_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/backend/xlacache"
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "xlacache")
	if err != nil {
		panic(err)
	}
	os.Setenv(xlacache.EnvVar, dir)
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// compiled compiles a graph and runs it.
func compiled(t *testing.T, b compute.Backend) []float32 {
	t.Helper()
	exec, err := graph.NewExec(b, func(x *graph.Node) *graph.Node { return graph.Sin(graph.MatMul(x, graph.Transpose(x, 0, 1))) })
	if err != nil {
		t.Fatal(err)
	}
	defer exec.Finalize()
	out, err := exec.Call1([][]float32{{1, 2, 3}, {4, 5, 6}})
	if err != nil {
		t.Fatal(err)
	}
	return tensors.MustCopyFlatData[float32](out)
}

// TestNothingIsCompiledTwice compiles a program again with its entry in the folder, and after the entry was damaged in several ways.
func TestNothingIsCompiledTwice(t *testing.T) {
	if backend.Config() == backend.Go || os.Getenv(compute.ConfigEnvVar) == backend.Go {
		t.Skip("XLA is not installed")
	}
	b, err := backend.Open()
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprint(compiled(t, b))
	kept, err := filepath.Glob(filepath.Join(xlacache.Dir(), "*.program"))
	if err != nil || len(kept) == 0 {
		t.Fatalf("no program is kept: %v", err)
	}
	before := time.Now().Add(-time.Hour)
	contents := map[string][]byte{}
	for _, path := range kept {
		if contents[path], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, before, before); err != nil {
			t.Fatal(err)
		}
	}
	if got := fmt.Sprint(compiled(t, b)); got != want {
		t.Errorf("loaded from the folder: %s, want %s", got, want)
	}
	var path string // The entry of this program was used.
	for _, p := range kept {
		if info, err := os.Stat(p); err == nil && info.ModTime().After(before.Add(time.Minute)) {
			path = p
		}
	}
	if path == "" {
		t.Fatal("the second compilation did not use an entry")
	}
	foreign := []byte("a program that no plugin takes")
	sum := sha256.Sum256(foreign)
	for name, damaged := range map[string][]byte{
		"empty": nil, "cut off": contents[path][:100], "flipped": append([]byte{^contents[path][0]}, contents[path][1:]...), "refused": append(sum[:], foreign...),
	} {
		if err := os.WriteFile(path, damaged, 0o644); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(compiled(t, b)); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
		if now, err := os.ReadFile(path); err != nil || len(now) < len(contents[path])/2 {
			t.Errorf("%s: the entry has %d bytes, %v", name, len(now), err)
		}
	}
}
