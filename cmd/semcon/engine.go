package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/sccore/backend"
)

// setupCommand mends everything that set-up has made in a checkout.
const setupCommand = "go run ./cmd/semcon lab --setup-only"

// announceEngine says which engine a run computes on, and warns of the slow one.
func announceEngine(w io.Writer) {
	fmt.Fprintf(w, "engine: %s\n", backend.Engine())
	if backend.IsGo() {
		fmt.Fprintf(w, "warning: training on the pure-Go engine takes about 25 times as long as on XLA; to get XLA: %s\n", xlaRemedy())
	}
}

// xlaRemedy is the command, or the deed, that puts XLA in the place of the pure-Go engine.
func xlaRemedy() string {
	switch {
	case os.Getenv(compute.ConfigEnvVar) != "":
		return "unset " + compute.ConfigEnvVar
	case !backend.CanLoadXLA():
		return "build semcon again with a C compiler installed and CGO_ENABLED not set to 0"
	}
	root := backend.CheckoutRoot()
	if here, err := os.Getwd(); root != "" && err == nil && here == filepath.Clean(root) {
		return setupCommand
	}
	return "semcon lab --setup-only --global"
}
