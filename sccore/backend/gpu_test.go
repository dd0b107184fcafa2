package backend

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestGPUIsFoundByAnyOfItsFiles(t *testing.T) {
	for _, file := range []string{"proc/driver/nvidia/version", "dev/nvidia0", "dev/nvidia7"} {
		root := t.TempDir()
		if gpuBelow(root) {
			t.Fatal("found in an empty folder")
		}
		path := filepath.Join(root, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if !gpuBelow(root) {
			t.Errorf("not found by %s", file)
		}
	}
}

func TestUnusedGPUIsSaid(t *testing.T) {
	for _, c := range []struct {
		hasGPU        bool
		config, asked string
		said          bool
	}{
		{true, "xla:/a/xla_cpu_pjrt.so", "", true}, {true, "go", "", true},
		{false, "go", "", false}, {true, "go", "go", false}, {true, "xla:/a/xla_cuda_plugin.so", "", false},
	} {
		if got := unusedGPU(c.hasGPU, c.config, c.asked); (got != "") != c.said {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

func TestFlagsOfPlugins(t *testing.T) {
	for _, c := range []struct{ config, flags, want string }{
		{"xla:/a/xla_cuda_plugin.so,tf32=false", "", cudaFlags}, {"xla:/a/xla_cuda_plugin.so", "--mine=1", cudaFlags + " --mine=1"},
		{"xla:/cuda/xla_cpu_pjrt.so", "--mine=1", cpuFlags + " --mine=1"}, {"go", "", ""},
	} {
		t.Setenv("XLA_FLAGS", c.flags)
		for range 2 { // A second backend changes nothing.
			if err := setFlags(c.config); err != nil || os.Getenv("XLA_FLAGS") != c.want {
				t.Errorf("%s: flags %q, want %q, %v", c.config, os.Getenv("XLA_FLAGS"), c.want, err)
			}
		}
	}
}

func TestCUDAThatCannotBeIsSaid(t *testing.T) {
	for _, c := range []struct {
		config string
		hasGPU bool
		want   string
	}{
		{"xla:cuda", false, "needs an NVIDIA GPU"}, {"xla:cuda,tf32=false", true, "semcon lab --setup-only"}, {"xla:/a/xla_cuda_plugin.so", false, ""}, {"go", false, ""},
	} {
		err := checkCUDA(c.config, c.hasGPU)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s, GPU %v: %v", c.config, c.hasGPU, err)
		}
	}
}

func TestModelOfTheGPU(t *testing.T) {
	root := t.TempDir()
	if model := gpuModelBelow(root); model != "" {
		t.Errorf("model %q in an empty folder", model)
	}
	path := filepath.Join(root, "proc", "driver", "nvidia", "gpus", "0000:01:00.0", "information")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("Model: \t\t NVIDIA H200\nIRQ:   \t\t 17\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if model := gpuModelBelow(root); model != "NVIDIA H200" {
		t.Errorf("model %q", model)
	}
}
