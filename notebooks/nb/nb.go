// Package nb keeps the cells of the notebooks short. It provides the backend, a progress bar, figures and tables, and the folders of data and
// results. Outside a notebook, the same calls print text to the terminal.
//
// A cell cannot return an error. So the functions of this package print an error in one line and end the cell with a failure. They set [must.M], so that
// must.M(err) and must.M1(value, err) do the same for the errors of other packages.
package nb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomlx/compute"
	"github.com/janpfeifer/gonb/gonbui"
	"github.com/janpfeifer/must"
	"github.com/semcon/semcon/sccore/backend"
	_ "github.com/semcon/semcon/sccore/backend/buffers" // A notebook keeps large buffers between steps.
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/weights/hub"
)

// Backend returns the backend that computations run on, opened once per cell. Package sccore/backend describes the choice.
func Backend() compute.Backend { return must.M1(openBackend()) }

var openBackend = sync.OnceValues(backend.Open)

// Profile returns the size of the experiments, $SEMCON_PROFILE: smoke, quick, real or full. The default is quick.
func Profile() study.Profile {
	name := os.Getenv("SEMCON_PROFILE")
	if name == "" {
		return study.Quick
	}
	profile, err := study.ParseProfile(name)
	if err != nil {
		err = fmt.Errorf("SEMCON_PROFILE: %w", err)
	}
	return must.M1(profile, err)
}

// Data returns the folder of the datasets, $SEMCON_DATA, as an absolute path, or "" if it is not set.
func Data() string {
	if data := os.Getenv("SEMCON_DATA"); data != "" {
		return must.M1(filepath.Abs(data))
	}
	return ""
}

// DataWith returns Data if it has folders with these names. If it lacks one, DataWith says so and returns "", with which experiments draw their images.
func DataWith(folders ...string) string {
	data := Data()
	for _, folder := range folders {
		if _, err := os.Stat(filepath.Join(data, folder)); data != "" && err != nil {
			fmt.Printf("no %s/ in %s: synthetic images instead\n", folder, data)
			return ""
		}
	}
	return data
}

// Out returns the folder of the results as an absolute path: $SEMCON_OUT, or out/ in the checkout.
func Out() string {
	if out := os.Getenv("SEMCON_OUT"); out != "" {
		return must.M1(filepath.Abs(out))
	}
	return must.M1(filepath.Abs(filepath.Join(backend.CheckoutRoot(), "out")))
}

// Options returns the options of an experiment's runs in a notebook, with settings as "key=value". The same options, given to Load, show these runs. Weights may have
// names of the Hugging Face Hub, as [hub.Locate] takes them.
func Options(settings ...string) study.Options {
	settings = must.M1(hub.Settings(Context(), settings, hub.Watch{Bar: Progress, Say: func(line string) { fmt.Println(line) }}))
	o := study.Options{Profile: Profile(), Data: Data(), Out: Out(), Set: settings, Parallel: 2, Bar: Progress, CheckpointEvery: 20 * time.Second}
	if o.Profile == study.Full || o.Profile == study.Real { // A step of full size fills the device.
		o.Parallel = 1
	}
	return o
}

func init() { must.M = check }

// check ends the cell if err is not nil and prints the first line of err. In a notebook, a second line names the line of the cell. After an
// interrupt, check prints that the cell was stopped.
func check(err error) {
	if err == nil {
		return
	}
	if work.Err() != nil && errors.Is(err, context.Canceled) {
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

// grace is the time that a cell may take to stop. The kernel kills it after five seconds.
const grace = 4 * time.Second

var (
	work, cancelWork = context.WithCancel(context.Background())
	workBegun        atomic.Bool
)

// Context returns the context of the cell's work. It is cancelled when the cell is interrupted. The work then writes a checkpoint, if it has
// one, and returns, and [must.M] ends the cell.
func Context() context.Context {
	workBegun.Store(true)
	return work
}

func init() {
	if gonbui.IsNotebook {
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, os.Interrupt)
		go func() {
			<-signals
			cancelWork()
			if workBegun.Load() {
				time.Sleep(grace) // XLA cannot be interrupted while it compiles.
			}
			stopped()
		}()
	}
}

// stopped ends an interrupted cell with one line.
var stopped = sync.OnceFunc(func() {
	line := "Stopped."
	if workBegun.Load() {
		line += " Checkpoint kept, run the cell again to continue."
	}
	HTML("<b>" + line + "</b>")
	os.Exit(0) // Another status adds red lines without information. Neither status stops the following cells.
})
