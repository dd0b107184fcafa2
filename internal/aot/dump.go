package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/sccore/backend"
	"k8s.io/klog/v2"
)

// dump writes the program of the training step that compile compiles first, as GoMLX hands it to XLA for CUDA, and ends the process: nothing compiles it here.
//
// go-xla emits the program for CUDA if the plugin's path has "cuda" in it, so a link with such a name makes it do so on the CPU plugin. go-xla logs a
// program before it compiles it.
func dump(compile func(compute.Backend) error, path string) error {
	plugin := ""
	for _, installed := range backend.Plugins() {
		if strings.HasSuffix(installed, "cpu_pjrt.so") {
			plugin = installed
		}
	}
	if plugin == "" {
		return errors.New("XLA's CPU plugin is not installed: semcon lab --setup-only")
	}
	folder, err := os.MkdirTemp("", "semcon-cuda-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	link := filepath.Join(folder, "cuda_pjrt.so")
	if err := os.Symlink(plugin, link); err != nil {
		return err
	}
	b, err := backend.OpenConfig("xla:" + link)
	if err != nil {
		return err
	}
	klog.LogToStderr(false)
	var verbosity klog.Level
	if err := verbosity.Set("2"); err != nil {
		return err
	}
	klog.SetOutput(&programs{path: path, folder: folder})

	if err := compile(b); err != nil {
		return err
	}
	return errors.New("go-xla has logged no program")
}

// programs takes the first program from go-xla's log.
type programs struct{ path, folder string }

func (p *programs) Write(line []byte) (int, error) {
	_, program, ok := bytes.Cut(line, []byte("StableHLO program:\n"))
	if !ok {
		return len(line), nil
	}
	os.RemoveAll(p.folder)
	if err := os.WriteFile(p.path, program, 0o644); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
	return 0, nil
}
