// Aot says what a training step would take on an NVIDIA H200, on a machine that has none: memory, bytes moved, FLOP by dtype, and a lower bound on
// its time. XLA's CUDA plugin compiles for a GPU that a text describes, h200.txtpb.
//
//	go run ./internal/aot                              # the paper's step in bfloat16, beside earlier figures
//	go run ./internal/aot --top 40                     # also the launches that take most of the time
//	go run ./internal/aot --set batch=128 --name 128   # another configuration, with the keys of "semcon run pretrain --set"
//	go run ./internal/aot --step upernet               # a fine-tuning step of the full profile: upernet, fpn, detection
//
// The first call makes a virtual environment under .semcon/ with the packages of requirements.txt, which takes 1.4 GB. A call takes about a minute of one
// core and 2 GB of memory. It needs the CPU plugin that "semcon lab --setup-only" installs. docs/speed.md has the figures and what they mean.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dsnet/try"
	"github.com/gomlx/compute"
	"github.com/samber/lo"
	"github.com/semcon/semcon/internal/steps"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/study"
	"k8s.io/klog/v2"
)

// folder is where this program's files are in a checkout.
const folder = "internal/aot"

func main() { os.Exit(run(os.Args[1:], os.Stdout)) }

// call is what the command line asks for.
type call struct {
	args  []string
	dump  string
	top   int
	write bool
}

func run(args []string, out io.Writer) int {
	flags := flag.NewFlagSet("aot", flag.ContinueOnError)
	flags.SetOutput(out)
	c, now, set := call{args: args}, figures{}, []string{}
	flags.StringVar(&now.Step, "step", steps.Pretrain, "`NAME` of a training step: "+strings.Join(steps.Names, ", "))
	flags.Func("set", "`KEY=VALUE` of the configuration; may be repeated", func(value string) error {
		set = append(set, value)
		return nil
	})
	flags.StringVar(&now.Name, "name", "now", "`NAME` of these figures")
	flags.BoolVar(&c.write, "write", false, "write the figures to "+steps.FiguresFile+" under their name")
	flags.IntVar(&c.top, "top", 0, "also list the `N` groups of launches with the most of the roof")
	flags.StringVar(&c.dump, "dump", "", "write the program of the step to this `FILE` and compile nothing")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if now.Step == steps.Pretrain { // By default in bfloat16.
		set = append([]string{"bf16=true"}, set...)
	}
	step, err := steps.Of(now.Step, steps.Options{Profile: study.Full, Set: set})
	switch {
	case err != nil:
	case c.dump != "":
		err = dump(step.New, c.dump) // It ends the process.
	default:
		err = c.report(out, step, now)
	}
	if err != nil {
		fmt.Fprintf(out, "aot: %v\n", err)
		return 1
	}
	return 0
}

// report prints the figures of a step beside the ones in figures.json. The given figures have names only.
func (c call) report(out io.Writer, step steps.Step, now figures) (err error) {
	defer try.Handle(&err)
	root := backend.CheckoutRoot()
	if root == "" {
		return errors.New("run it in a checkout")
	}
	work := try.E1(os.MkdirTemp("", "semcon-aot-"))
	defer os.RemoveAll(work)
	program := try.E1(compile(out, root, work, c.args))
	try.E(now.read(string(try.E1(os.ReadFile(program))), step))
	if memory, err := os.ReadFile(strings.TrimSuffix(program, ".txt") + "-memory-usage-report.txt"); err == nil {
		_, total, _ := strings.Cut(string(memory), "Total bytes: ")
		fmt.Sscan(total, &now.MemoryGB)
		now.MemoryGB /= 1e9
	}
	path := filepath.Join(root, filepath.FromSlash(steps.FiguresFile))
	var all []figures
	if saved, err := os.ReadFile(path); err == nil {
		if err := json.Unmarshal(saved, &all); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	all = append(slices.DeleteFunc(all, func(f figures) bool { return f.Step == now.Step && f.Name == now.Name }), now)
	table(out, lo.Filter(all, func(f figures, _ int) bool { return f.Step == now.Step }))
	now.list(out, c.top)
	if !c.write {
		return nil
	}
	encoded := try.E1(json.MarshalIndent(all, "", "\t"))
	return os.WriteFile(path, append(encoded, '\n'), 0o666)
}

// compile writes the optimised program of a step for an H200 into the folder work and returns its path.
func compile(out io.Writer, root, work string, args []string) (_ string, err error) {
	defer try.Handle(&err)
	python := try.E1(environment(out, root))
	self := try.E1(os.Executable())
	program := filepath.Join(work, "step.mlir")
	try.E(tool(self, append(args, "--dump", program)...))
	fmt.Fprintln(out, "compiling for an H200")
	dumped := filepath.Join(work, "xla")
	try.E(tool(python, filepath.Join(root, folder, "compile.py"), program, dumped))
	found, err := filepath.Glob(filepath.Join(dumped, "*gpu_after_optimizations.txt"))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("XLA has left %d optimised programs", len(found))
	}
	return found[0], nil
}

// environment returns the interpreter of the virtual environment with XLA's CUDA plugin, which it makes where it is missing.
func environment(out io.Writer, root string) (python string, err error) {
	defer try.Handle(&err)
	venv := filepath.Join(root, backend.SetupDir, "aot")
	python, done := filepath.Join(venv, "bin", "python"), filepath.Join(venv, "installed.txt")
	requirements := filepath.Join(root, folder, "requirements.txt")
	want := try.E1(os.ReadFile(requirements))
	if have, err := os.ReadFile(done); err == nil && string(have) == string(want) {
		return python, nil
	}
	fmt.Fprintf(out, "installing XLA's CUDA plugin into %s\n", venv)
	try.E(tool("python3", "-m", "venv", venv))
	try.E(tool(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", requirements))
	return python, os.WriteFile(done, want, 0o666)
}

// tool runs a program. The error has the last line that it wrote.
func tool(name string, args ...string) error {
	output, err := exec.Command(name, args...).CombinedOutput()
	if err == nil {
		return nil
	}
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	return fmt.Errorf("%s: %w: %s", filepath.Base(name), err, lines[len(lines)-1])
}

// dump writes the program of the training step that compile compiles first, as GoMLX hands it to XLA for CUDA, and ends the process: nothing compiles it here.
//
// go-xla emits the program for CUDA if the plugin's path has "cuda" in it, so a link with such a name makes it do so on the CPU plugin. go-xla logs a
// program before it compiles it.
func dump(compile func(compute.Backend) (steps.Trainer, error), path string) (err error) {
	defer try.Handle(&err)
	plugins := lo.Filter(backend.Plugins(), func(p string, _ int) bool { return strings.HasSuffix(p, "cpu_pjrt.so") })
	if len(plugins) == 0 {
		return errors.New("XLA's CPU plugin is not installed: semcon lab --setup-only")
	}
	folder := try.E1(os.MkdirTemp("", "semcon-cuda-"))
	defer os.RemoveAll(folder)
	link := filepath.Join(folder, "cuda_pjrt.so")
	try.E(os.Symlink(plugins[len(plugins)-1], link))
	b := try.E1(backend.OpenConfig("xla:" + link))
	klog.LogToStderr(false)
	var verbosity klog.Level
	try.E(verbosity.Set("2"))
	klog.SetOutput(&programs{path: path, folder: folder})

	try.E1(compile(b))
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
	if err := os.WriteFile(p.path, program, 0o666); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
	return 0, nil
}
