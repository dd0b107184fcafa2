package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/sccore/backend"
)

// setupCommand repairs the set-up of a checkout.
const setupCommand = "go run ./cmd/semcon lab --setup-only"

// announceEngine prints the engine of a run, and a warning where there is a faster one.
func announceEngine(w io.Writer) {
	fmt.Fprintf(w, "engine: %s\n", backend.Engine())
	if backend.IsGo() {
		fmt.Fprintf(w, "warning: training on the pure-Go engine takes about 25 times as long as on XLA; to get XLA: %s\n", xlaRemedy())
	} else if unused := backend.UnusedGPU(); unused != "" {
		fmt.Fprintf(w, "warning: %s; to use the GPU: %s\n", unused, xlaRemedy())
	}
}

// xlaRemedy returns the command or the step that replaces the pure-Go engine with XLA.
func xlaRemedy() string {
	switch {
	case os.Getenv(compute.ConfigEnvVar) != "":
		return "unset " + compute.ConfigEnvVar
	case !backend.CanLoadXLA():
		return "install a C compiler and build semcon again without CGO_ENABLED=0"
	}
	root := backend.CheckoutRoot()
	if here, err := os.Getwd(); root != "" && err == nil && here == filepath.Clean(root) {
		return setupCommand
	}
	return "semcon lab --setup-only --global"
}
