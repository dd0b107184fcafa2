// Package nb keeps the cells of the notebooks short: the backend, a bar, figures and tables, and where data and results lie. In a
// plain terminal, outside a notebook, the same calls print text.
//
// A cell has nobody to hand an error to, so the functions of this package report one in a single line and end the cell, which
// fails. [Check] and [Must] do the same for other packages' errors.
package nb

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/gomlx/compute"
	"github.com/janpfeifer/gonb/gonbui"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/study"
)

// Backend returns the backend that computations run on, opened once per cell: see package sccore/backend for which one it is.
func Backend() compute.Backend { return Must(openBackend()) }

var openBackend = sync.OnceValues(backend.Open)

// Profile returns the size of the experiments: $SEMCON_PROFILE, which is smoke, quick or full; quick where it is not set.
func Profile() study.Profile {
	name := os.Getenv("SEMCON_PROFILE")
	if name == "" {
		return study.Quick
	}
	profile, err := study.ParseProfile(name)
	if err != nil {
		Check(fmt.Errorf("SEMCON_PROFILE: %w", err))
	}
	return profile
}

// Data returns the folder of the datasets, $SEMCON_DATA, as an absolute path; empty where it is not set.
func Data() string {
	if data := os.Getenv("SEMCON_DATA"); data != "" {
		return Must(filepath.Abs(data))
	}
	return ""
}

// Out returns the folder of the results as an absolute path: $SEMCON_OUT, or out/ of the checkout.
func Out() string {
	if out := os.Getenv("SEMCON_OUT"); out != "" {
		return Must(filepath.Abs(out))
	}
	return Must(filepath.Abs(filepath.Join(backend.CheckoutRoot(), "out")))
}

// Check ends the cell if err is not nil, with the first line of err as its message. In a notebook a second line names the line of the
// cell. After an interrupt it says that the cell was stopped.
func Check(err error) {
	if err == nil {
		return
	}
	if interrupted(err) {
		stopped()
	}
	message, _, _ := strings.Cut(strings.TrimSpace(err.Error()), "\n")
	gonbui.Sync() // What the cell has shown so far stays.
	fmt.Fprintf(os.Stderr, "error: %s\n%s", message, cellLine())
	os.Exit(1)
}

// cellLine names the line of the cell that called, as a line of a stack trace does, which the kernel translates into a cell and its
// line; empty outside a notebook.
func cellLine() string {
	if !gonbui.IsNotebook {
		return ""
	}
	callers := make([]uintptr, 16)
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers)])
	for {
		frame, more := frames.Next()
		if strings.HasPrefix(frame.Function, "main.") {
			return fmt.Sprintf("\t%s:%d\n", frame.File, frame.Line)
		}
		if !more {
			return ""
		}
	}
}

// Must returns value, or ends the cell as [Check] does.
func Must[T any](value T, err error) T {
	Check(err)
	return value
}
