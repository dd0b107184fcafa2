package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/sccore/backend"
)

// setupCommand repairs the set-up of a checkout.
const setupCommand = "go run ./cmd/semcon lab --setup-only"

// devicesFlag adds the flag of the devices that a verb trains on.
func devicesFlag(flags *flag.FlagSet) *int {
	return flags.Int("devices", 1, "`NUMBER` of devices of this host that share each batch: GPUs, or parts of the CPU on XLA's CPU plugin")
}

// checkDevices returns an error of usage if a verb cannot train on n devices, whatever the engine.
func checkDevices(n int) error {
	if n < 1 {
		return usagef("--devices %d is not positive", n)
	}
	return nil
}

// announceEngine prints the engine of a run, its devices if there are several, and a warning where there is a faster engine.
func announceEngine(w io.Writer, devices int) {
	shared := ""
	if devices > 1 {
		shared = fmt.Sprintf(", %d devices", devices)
	}
	fmt.Fprintf(w, "engine: %s%s\n", backend.Engine(), shared)
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
