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

// Backend returns the backend that computations run on, opened once per cell. Package sccore/backend describes the choice.
func Backend() compute.Backend { return Must(openBackend()) }

var openBackend = sync.OnceValues(backend.Open)

// Profile returns the size of the experiments, $SEMCON_PROFILE: smoke, quick or full. The default is quick.
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

// Data returns the folder of the datasets, $SEMCON_DATA, as an absolute path, or "" if it is not set.
func Data() string {
	if data := os.Getenv("SEMCON_DATA"); data != "" {
		return Must(filepath.Abs(data))
	}
	return ""
}

// DataWith returns Data if it has folders with these names. If it lacks one, DataWith says so and returns "", with which experiments draw their images.
func DataWith(folders ...string) string {
	data := Data()
	if data == "" {
		return ""
	}
	for _, folder := range folders {
		if _, err := os.Stat(filepath.Join(data, folder)); err != nil {
			fmt.Printf("no %s/ in %s: synthetic images instead\n", folder, data)
			return ""
		}
	}
	return data
}

// Out returns the folder of the results as an absolute path: $SEMCON_OUT, or out/ in the checkout.
func Out() string {
	if out := os.Getenv("SEMCON_OUT"); out != "" {
		return Must(filepath.Abs(out))
	}
	return Must(filepath.Abs(filepath.Join(backend.CheckoutRoot(), "out")))
}

// Check ends the cell if err is not nil and prints the first line of err. In a notebook, a second line names the line of the cell. After an
// interrupt, Check prints that the cell was stopped.
func Check(err error) {
	if err == nil {
		return
	}
	if interrupted(err) {
		stopped()
	}
	message, _, _ := strings.Cut(strings.TrimSpace(err.Error()), "\n")
	gonbui.Sync() // Keeps the outputs so far.
	fmt.Fprintf(os.Stderr, "error: %s\n%s", message, cellLine())
	os.Exit(1)
}

// cellLine returns the calling line of the cell in the form of a stack trace, which the kernel translates to the cell and its line. It is empty
// outside a notebook.
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
