package setup

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/progress"
)

var (
	//go:embed requirements.txt
	jupyterPackages string
	//go:embed requirements-xla-cpu.txt
	xlaCPUPackages string
	//go:embed requirements-xla-cuda.txt
	xlaCUDAPackages string
)

// goFlags are the Go flags of every notebook cell. Without debug tables a cell links in half the time. Version-control stamping is off because it
// needs git and a checkout that git trusts.
const goFlags = "-ldflags=-w -buildvcs=false"

// Install is the set-up of one checkout, or that of the user.
type Install struct {
	root   string // Folder of the checkout; empty for the user's own set-up.
	folder string // Folder that everything is installed into.
}

// At returns the set-up of the checkout at root, installed or not.
func At(root string) (Install, error) {
	absolute, err := filepath.Abs(root)
	if err != nil {
		return Install{}, err
	}
	if strings.ContainsAny(absolute, ",:") {
		return Install{}, fmt.Errorf("the checkout is at %s: move it to a path without ',' and ':', which the Go kernel does not support", absolute)
	}
	return Install{absolute, filepath.Join(absolute, backend.SetupDir)}, nil
}

// Global returns the set-up in the user's cache folder, installed or not: the XLA plugin for binaries outside a checkout.
func Global() (Install, error) {
	folder, err := backend.CacheDir()
	return Install{folder: folder}, err
}

// Root returns the folder of the checkout; empty for the user's own set-up.
func (in Install) Root() string { return in.root }

// Dir joins path elements to the folder that everything is installed into.
func (in Install) Dir(elements ...string) string {
	return filepath.Join(append([]string{in.folder}, elements...)...)
}

// Python returns the interpreter that JupyterLab is installed for.
func (in Install) Python() string { return in.Dir("venv", "bin", "python") }

// Ensure brings the set-up up to date. It prints its progress and the limits of this machine to w, and writes the output of the tools to
// setup.log. The error names the step, the message of the tool, and the log.
func (in Install) Ensure(ctx context.Context, w io.Writer) error {
	m, err := in.probe(ctx)
	if err != nil {
		return err
	}
	for _, limit := range m.limits {
		fmt.Fprintln(w, limit)
	}
	steps, err := in.steps(m)
	if err != nil {
		return err
	}
	if len(in.pending(steps)) == 0 {
		return nil
	}
	unlock, err := in.lock(ctx, w)
	if err != nil {
		return err
	}
	defer unlock()
	return in.do(ctx, in.pending(steps), w)
}

// Status is the state of a set-up.
type Status struct {
	Steps   []string // All steps, in order.
	Pending []string // The steps that Ensure would do.
	Limits  []string // One line for each thing that this machine does not support.
}

// Status returns the state of the set-up without changing it.
func (in Install) Status(ctx context.Context) (Status, error) {
	m, err := in.probe(ctx)
	if err != nil {
		return Status{}, err
	}
	steps, err := in.steps(m)
	if err != nil {
		return Status{}, err
	}
	names := func(steps []step) []string {
		var all []string
		for _, s := range steps {
			all = append(all, s.name)
		}
		return all
	}
	return Status{names(steps), names(in.pending(steps)), m.limits}, nil
}

// steps lists the steps of set-up on machine m, in order.
func (in Install) steps(m machine) ([]step, error) {
	if in.root == "" {
		return in.globalSteps(m)
	}
	modules, err := readAll(filepath.Join(in.root, "go.mod"), filepath.Join(in.root, "go.sum"))
	if err != nil {
		return nil, err
	}
	const goplsModule = "tools/gopls" // A module of its own, because its dependencies are not those of the project.
	gopls, err := readAll(filepath.Join(in.root, goplsModule, "go.mod"), filepath.Join(in.root, goplsModule, "go.sum"))
	if err != nil {
		return nil, err
	}
	settings := map[string]string{
		in.kernelFile(KernelName):         in.kernelJSON(m, KernelName),
		in.kernelFile(HeadlessKernelName): in.kernelJSON(m, HeadlessKernelName),
		in.labSettingsFile():              labSettings(),
		in.serverSettingsFile():           in.serverSettings(),
	}
	settingsFiles := slices.Sorted(maps.Keys(settings))
	goEnv := []string{"GOFLAGS=" + goFlags, "GOBIN=" + in.Dir("bin"), "GOWORK=off"}

	steps := []step{{
		name:     "Jupyter",
		inputs:   []string{in.root, m.python, m.pythonVersion, jupyterPackages},
		products: []string{in.Python(), in.Dir("venv", "bin", "jupyter-lab")},
		tasks: []task{
			{"Python environment", in.makeVenv(m)},
			{"JupyterLab", in.pip(jupyterPackages)},
		},
	}}
	if m.plugin != "" {
		steps = append(steps, in.pluginStep(m, "Jupyter"))
	}
	return append(steps,
		step{
			name:     "Go kernel",
			inputs:   []string{in.root, m.goVersion, modules},
			products: []string{in.Dir("bin", "gonb"), in.Dir("bin", "goimports")},
			tasks:    []task{{"Go kernel", in.command(goEnv, m.goTool, "install", "tool")}},
		},
		step{
			name:     "completion",
			inputs:   []string{in.root, m.goVersion, gopls},
			products: []string{in.Dir("bin", "gopls")},
			tasks:    []task{{"completion of Go code", in.command(goEnv, m.goTool, "-C", goplsModule, "install", "tool")}},
		},
		step{
			name:   "build",
			inputs: []string{in.root, m.goVersion, fmt.Sprint(m.cgo), modules, goFlags},
			tasks: []task{
				{"Go modules", in.command(goEnv, m.goTool, "mod", "download")},
				{"build of the project", in.command(goEnv, m.goTool, "build", "./...")},
			},
		},
		step{
			name:     "settings",
			within:   "Jupyter",
			inputs:   []string{indented(settings)},
			products: settingsFiles,
			tasks: []task{{"settings of Jupyter", func(context.Context, *transcript) error {
				for _, file := range settingsFiles {
					if err := atomicfile.WriteBytes(file, []byte(settings[file])); err != nil {
						return err
					}
				}
				return nil
			}}},
		}), nil
}

// globalSteps lists the steps of set-up without a checkout: the plugin, in a Python environment of its own.
func (in Install) globalSteps(m machine) ([]step, error) {
	if m.plugin == "" {
		return nil, errors.New("there is no XLA plugin for this machine, and nothing else to set up without a checkout")
	}
	return []step{{
		name:     "Python",
		inputs:   []string{in.folder, m.python, m.pythonVersion},
		products: []string{in.Python()},
		tasks:    []task{{"Python environment", in.makeVenv(m)}},
	}, in.pluginStep(m, "Python")}, nil
}

// pluginStep installs the XLA plugin into the Python environment that another step creates.
func (in Install) pluginStep(m machine, within string) step {
	return step{
		name:     "XLA plugin",
		within:   within,
		inputs:   []string{in.root, m.pythonVersion, m.plugin},
		products: []string{in.Dir("venv", "lib", "python3*", "site-packages", "*_plugins", "xla_*", "*.so")},
		tasks:    []task{{"XLA plugin", in.pip(m.plugin, "--force-reinstall")}},
	}
}

// do runs the steps one after the other, with one bar for all their tasks.
func (in Install) do(ctx context.Context, steps []step, w io.Writer) error {
	log, err := os.Create(in.Dir("setup.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	total := 0
	for _, s := range steps {
		total += len(s.tasks)
	}
	bar := progress.New(w, "set-up", total)
	defer bar.Close()

	done := 0
	for _, s := range steps {
		if err := in.unstamp(s); err != nil {
			return err
		}
		for _, t := range s.tasks {
			out := newTranscript(log, t.name)
			stop := keepSaying(bar, done, t.name, out)
			err := t.run(ctx, out)
			stop()
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				return fmt.Errorf("set-up step %q: %s; the log is %s", t.name, out.explain(err), log.Name())
			}
			done++
			bar.Set(done, t.name)
		}
		if err := in.stamp(s); err != nil {
			return err
		}
	}
	bar.Set(done, "ready")
	return nil
}

// keepSaying shows the latest line of a running task in the bar until stop is called.
func keepSaying(bar progress.Bar, done int, name string, out *transcript) (stop func()) {
	finish, finished := make(chan struct{}), make(chan struct{})
	bar.Set(done, name)
	go func() {
		defer close(finished)
		tick := time.NewTicker(250 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-finish:
				return
			case <-tick.C:
				bar.Set(done, strings.TrimSpace(name+"  "+shorten(out.last(), 60)))
			}
		}
	}()
	return func() { close(finish); <-finished }
}

func shorten(text string, limit int) string {
	if runes := []rune(text); len(runes) > limit {
		return string(runes[:limit-1]) + "…"
	}
	return text
}
