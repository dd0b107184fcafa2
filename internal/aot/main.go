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
	"runtime"
	"slices"
	"strings"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/internal/steps"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/study"
	"k8s.io/klog/v2"
)

// folder is where this program's files are in a checkout.
const folder = "internal/aot"

func main() { os.Exit(run(os.Args[1:], os.Stdout)) }

func run(args []string, out io.Writer) int {
	flags := flag.NewFlagSet("aot", flag.ContinueOnError)
	flags.SetOutput(out)
	now, set := figures{}, []string{}
	flags.StringVar(&now.Step, "step", steps.Pretrain, "`NAME` of a training step: "+strings.Join(steps.Names, ", "))
	flags.Func("set", "`KEY=VALUE` of the configuration; may be repeated", func(value string) error {
		set = append(set, value)
		return nil
	})
	flags.StringVar(&now.Name, "name", "now", "`NAME` of these figures")
	write := flags.Bool("write", false, "write the figures to "+steps.FiguresFile+" under their name")
	top := flags.Int("top", 0, "also list the `N` groups of launches with the most of the roof")
	dump := flags.String("dump", "", "write the program of the step to this `FILE` and compile nothing")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if now.Step == steps.Pretrain { // By default in bfloat16.
		set = append([]string{"bf16=true"}, set...)
	}
	step, err := steps.Of(now.Step, steps.Options{Profile: study.Full, Set: set})
	switch {
	case err != nil:
	case *dump != "":
		err = lower(step, *dump)
	default:
		err = report(out, step, now, *top, *write)
	}
	if err != nil {
		fmt.Fprintf(out, "aot: %v\n", err)
		return 1
	}
	return 0
}

// report prints the figures of a step beside the ones in figures.json. The given figures have names only.
func report(out io.Writer, step steps.Step, now figures, top int, write bool) (err error) {
	defer try.Handle(&err)
	root := backend.CheckoutRoot()
	if root == "" {
		return errors.New("run it in a checkout")
	}
	work := try.E1(os.MkdirTemp("", "semcon-aot-"))
	defer os.RemoveAll(work)
	python, lowered, dumped := try.E1(environment(out, root)), filepath.Join(work, "step.mlir"), filepath.Join(work, "xla")
	try.E(lower(step, lowered))
	fmt.Fprintln(out, "compiling for an H200")
	try.E(tool(python, filepath.Join(root, folder, "compile.py"), lowered, dumped))
	const optimised = "*gpu_after_optimizations"
	programs := try.E1(filepath.Glob(filepath.Join(dumped, optimised+".txt")))
	if len(programs) != 1 {
		return fmt.Errorf("XLA has left %d optimised programs", len(programs))
	}
	try.E(now.read(string(try.E1(os.ReadFile(programs[0]))), step))
	if memory, err := os.ReadFile(strings.TrimSuffix(programs[0], ".txt") + "-memory-usage-report.txt"); err == nil {
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
	now.list(out, top)
	if !write {
		return nil
	}
	return os.WriteFile(path, append(try.E1(json.MarshalIndent(all, "", "\t")), '\n'), 0o666)
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

// lower writes the program of a training step that is compiled first to a file, as GoMLX hands it to XLA for CUDA. Nothing compiles it here.
//
// go-xla emits the program for CUDA if the plugin's path has "cuda" in it, so a link with such a name makes it do so on the CPU plugin. go-xla logs a
// program before it compiles it.
func lower(step steps.Step, path string) (err error) {
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
	log, ended := &programLog{}, make(chan error, 1)
	klog.SetOutput(log)
	go func() {
		failed := errors.New("go-xla has logged no program")
		defer func() { ended <- failed }()
		if _, err := step.New(b); err != nil {
			failed = err
		}
	}()
	if err := <-ended; log.program == nil {
		return err
	}
	return os.WriteFile(path, log.program, 0o666)
}

// programLog keeps the first program in go-xla's log, and ends the goroutine that would compile it.
type programLog struct{ program []byte }

func (p *programLog) Write(line []byte) (int, error) {
	if _, program, ok := bytes.Cut(line, []byte("StableHLO program:\n")); ok {
		p.program = bytes.Clone(program)
		runtime.Goexit()
	}
	return len(line), nil
}
