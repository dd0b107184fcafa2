package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/internal/filelock"
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

// install is the set-up of one checkout in its folder .semcon: Python with JupyterLab, the XLA plugin, the Go kernel and a warm build cache. The user's own,
// for binaries outside a checkout, is only the XLA plugin in the user's cache.
//
// Set-up is a short list of steps. A finished step leaves a stamp with a hash of everything that it depends on. A step whose stamp is missing or
// differs is done again from the beginning. So set-up may be interrupted at any time and is free if everything is up to date.
type install struct {
	root   string // Folder of the checkout; empty for the user's own set-up.
	folder string // Folder that everything is installed into.
}

// installAt returns the set-up of the checkout at root, installed or not.
func installAt(root string) (install, error) {
	absolute, err := filepath.Abs(root)
	if err == nil && strings.ContainsAny(absolute, `,:*?[\`) {
		err = fmt.Errorf(`the checkout is at %s: move it to a path without , : * ? [ \, which the Go kernel and the set-up do not support`, absolute)
	}
	return install{absolute, filepath.Join(absolute, backend.SetupDir)}, err
}

// installOf returns the set-up of the checkout that this process belongs to, or the user's own.
func installOf(global bool) (install, error) {
	if global {
		folder, err := backend.CacheDir()
		return install{folder: folder}, err
	}
	if root := backend.CheckoutRoot(); root != "" {
		return installAt(root)
	}
	return install{}, errors.New("not in a checkout of the project: run this inside a clone of the repository")
}

// dir joins path elements to the folder that everything is installed into.
func (in install) dir(elements ...string) string {
	return filepath.Join(append([]string{in.folder}, elements...)...)
}

// python returns the interpreter that JupyterLab is installed for.
func (in install) python() string { return in.dir("venv", "bin", "python") }

// state examines the machine and the set-up, which it does not change: the steps in order, and a line for each thing that this machine does not support.
func (in install) state(ctx context.Context) (steps []setupStep, limits []string, err error) {
	defer try.Handle(&err)
	m := in.probe(ctx)
	steps, limits = in.steps(m), m.limits
	in.mark(steps)
	return steps, limits, nil
}

// ensure brings the set-up up to date. It prints its progress and the limits of this machine to w, and writes the output of the tools to
// setup.log. The error names the step, the message of the tool, and the log.
func (in install) ensure(ctx context.Context, w io.Writer) (err error) {
	steps, limits, err := in.state(ctx)
	for _, limit := range limits {
		fmt.Fprintln(w, limit)
	}
	if err != nil || !slices.ContainsFunc(steps, func(s setupStep) bool { return s.pending }) {
		return err
	}
	defer try.Handle(&err)
	try.E(os.MkdirAll(in.dir(), 0o777))
	unlock := try.E1(filelock.Wait(ctx, in.dir(setupLock), func() { fmt.Fprintln(w, "waiting for another set-up in "+in.folder) }))
	defer unlock()
	in.mark(steps) // Another process may have done them.
	in.do(ctx, steps, w)
	return nil
}

// setupLock keeps two set-ups of one checkout from running at the same time.
const setupLock = "lock"

// setupStep is a part of set-up that is done completely or not at all. Its stamp is written after its last task.
type setupStep struct {
	name     string
	inputs   []string // Everything that its result depends on.
	products []string // Patterns of the files that it creates. If one is missing, the step is done again.
	within   string   // The step that creates the folder of its products. If that step is done again, so is this one.
	tasks    []setupTask
	pending  bool // It is left to do.
}

// setupTask is one unit of the bar.
type setupTask struct {
	name string
	run  func(ctx context.Context, out *transcript) error // It may also end by package try.
}

// steps lists the steps of set-up on machine m, in order.
func (in install) steps(m machine) []setupStep {
	python := setupStep{
		name:     "Python",
		inputs:   []string{in.folder, m.pythonVersion},
		products: []string{in.python()},
		tasks:    []setupTask{{"Python environment", in.makeVenv(m)}},
	}
	if in.root != "" {
		python.name, python.inputs = "Jupyter", []string{in.root, m.pythonVersion, jupyterPackages}
		python.products = append(python.products, in.dir("venv", "bin", "jupyter-lab"))
		python.tasks = append(python.tasks, setupTask{"JupyterLab", in.pip(jupyterPackages)})
	}
	steps := []setupStep{python}
	if m.plugin != "" {
		steps = append(steps, setupStep{
			name:     "XLA plugin",
			within:   python.name,
			inputs:   []string{in.root, m.pythonVersion, m.plugin},
			products: []string{in.dir("venv", "lib", "python3*", "site-packages", "*_plugins", "xla_*", "*.so")},
			tasks:    []setupTask{{"XLA plugin", in.pip(m.plugin, "--force-reinstall")}},
		})
	}
	if in.root == "" {
		return steps
	}
	files := in.jupyterSettings(m)
	settings := setupStep{name: "settings", within: "Jupyter", tasks: []setupTask{{"settings of Jupyter", func(context.Context, *transcript) error {
		for _, s := range files {
			try.E(atomicfile.WriteBytes(s.file, []byte(s.content)))
		}
		return nil
	}}}}
	settings.inputs = lo.FlatMap(files, func(s settingsFile, _ int) []string { return []string{s.file, s.content} })
	settings.products = lo.Map(files, func(s settingsFile, _ int) string { return s.file })
	return append(steps,
		setupStep{
			name:     "Go kernel",
			inputs:   []string{in.root, m.goVersion, in.modules(""), kernelFile},
			products: []string{in.dir("bin", "gonb"), in.dir("bin", "goimports")},
			tasks:    []setupTask{in.installKernel(m)},
		},
		setupStep{ // Its gopls has a module of its own, because its dependencies differ from the project's.
			name:     "completion",
			inputs:   []string{in.root, m.goVersion, in.modules("tools/gopls")},
			products: []string{in.dir("bin", "gopls")},
			tasks:    []setupTask{{"completion of Go code", in.goTask(m, "-C", "tools/gopls", "install", "tool")}},
		},
		setupStep{
			name:   "build",
			inputs: []string{in.root, m.goVersion, fmt.Sprint(m.cgo), in.modules(""), goFlags},
			tasks:  []setupTask{{"Go modules", in.goTask(m, "mod", "download")}, {"build of the project", in.goTask(m, "build", "./...")}},
		},
		settings)
}

// modules returns go.mod and go.sum of the module in a folder of the checkout.
func (in install) modules(folder string) string {
	mod, _ := os.ReadFile(filepath.Join(in.root, folder, "go.mod")) // Go says what is wrong with it.
	sum, _ := os.ReadFile(filepath.Join(in.root, folder, "go.sum"))
	return string(mod) + string(sum)
}

// goTask returns a task that runs the go command in the checkout.
func (in install) goTask(m machine, args ...string) func(context.Context, *transcript) error {
	return in.command([]string{"GOFLAGS=" + goFlags, "GOBIN=" + in.dir("bin"), "GOWORK=off"}, "", m.goTool, args...)
}

// hash returns a hash of the step's inputs. The length of each input makes the hash unambiguous.
func (s setupStep) hash() string {
	h := sha256.New()
	for _, input := range s.inputs {
		fmt.Fprintf(h, "%d:%s", len(input), input)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

func (in install) stampFile(s setupStep) string {
	return in.dir("stamps", strings.ReplaceAll(s.name, " ", "-"))
}

// mark marks the steps whose stamp is missing or has another hash, or whose products are missing.
func (in install) mark(steps []setupStep) {
	pending := map[string]bool{}
	for i, s := range steps {
		stamp, _ := os.ReadFile(in.stampFile(s))
		steps[i].pending = strings.TrimSpace(string(stamp)) != s.hash() || pending[s.within] || slices.ContainsFunc(s.products, func(pattern string) bool {
			found, _ := filepath.Glob(pattern)
			return len(found) == 0 || !exists(found[0])
		})
		pending[s.name] = steps[i].pending
	}
}

// exists follows links, because a link in a Python environment may point to an interpreter that is gone.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// do runs the pending steps one after the other, with one bar for all their tasks, which shows the latest line of the running one.
func (in install) do(ctx context.Context, steps []setupStep, w io.Writer) {
	steps = slices.DeleteFunc(steps, func(s setupStep) bool { return !s.pending })
	log := try.E1(os.Create(in.dir("setup.log")))
	defer log.Close()
	done := 0
	bar := progress.New(w, "set-up", lo.SumBy(steps, func(s setupStep) int { return len(s.tasks) }))
	defer bar.Close()
	for _, s := range steps {
		try.E(os.RemoveAll(in.stampFile(s)))
		for _, t := range s.tasks {
			fmt.Fprintf(log, "\n== %s, %s\n", t.name, time.Now().Format(time.DateTime))
			bar.Set(done, t.name)
			out := &transcript{log: log, show: func(line string) { bar.Set(done, t.name+"  "+line) }}
			err := ended(func() { try.E(t.run(ctx, out)) })
			try.E(ctx.Err())
			if err != nil {
				fail(true, "set-up step %q: %s; the log is %s", t.name, out.explain(err), log.Name())
			}
			done++
		}
		try.E(atomicfile.WriteBytes(in.stampFile(s), []byte(s.hash()+"\n")))
	}
	bar.Set(done, "ready")
}

// command returns a task that runs a program in the checkout, or else in the folder of the set-up, with env added to the environment.
func (in install) command(env []string, stdin, program string, args ...string) func(context.Context, *transcript) error {
	return func(ctx context.Context, out *transcript) error {
		c := exec.CommandContext(ctx, program, args...)
		c.Dir = cmp.Or(in.root, in.folder)
		c.Env = append(os.Environ(), env...)
		c.Stdin, c.Stdout, c.Stderr = strings.NewReader(stdin), out, out
		c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
		c.WaitDelay = 10 * time.Second
		dieWithParent(c)
		return c.Run()
	}
}

// cleanPython keeps the user's own Python packages out of the environment.
var cleanPython = []string{"PYTHONNOUSERSITE=1", "PYTHONPATH=", "PYTHONHOME=", "PIP_USER=0"}

// makeVenv creates an empty Python environment and removes what an interrupted set-up left.
func (in install) makeVenv(m machine) func(context.Context, *transcript) error {
	return func(ctx context.Context, out *transcript) error {
		if exec.CommandContext(ctx, m.python, "-c", "import venv, ensurepip").Run() != nil {
			return errors.New(m.python + " has no venv module (Debian, Ubuntu: apt install python3-venv; then run this again)")
		}
		try.E(os.RemoveAll(in.dir("venv")))
		return in.command(cleanPython, "", m.python, "-m", "venv", in.dir("venv"))(ctx, out)
	}
}

// pip returns a task that installs the packages of a requirements file, which pip reads from its standard input, into the Python environment.
func (in install) pip(requirements string, flags ...string) func(context.Context, *transcript) error {
	args := []string{"-m", "pip", "install", "--no-input", "--progress-bar=off", "--disable-pip-version-check", "-r", "/dev/stdin"}
	return in.command(cleanPython, requirements, in.python(), append(args, flags...)...)
}
