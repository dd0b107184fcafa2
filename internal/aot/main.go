package main

import (
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

	"github.com/semcon/semcon/sccore/backend"
)

// folder is where this program's files are in a checkout.
const folder = "internal/aot"

func main() { os.Exit(run(os.Args[1:], os.Stdout)) }

type assignments []string

func (a *assignments) String() string         { return strings.Join(*a, " ") }
func (a *assignments) Set(value string) error { *a = append(*a, value); return nil }

func run(args []string, out io.Writer) int {
	flags := flag.NewFlagSet("aot", flag.ContinueOnError)
	flags.SetOutput(out)
	var set assignments
	which := flags.String("step", pretrain, "`NAME` of a training step: "+strings.Join(stepNames, ", "))
	flags.Var(&set, "set", "`KEY=VALUE` of the configuration; may be repeated. Steps of fine-tuning have batch and bf16")
	name := flags.String("name", "now", "`NAME` of these figures")
	write := flags.Bool("write", false, "write the figures to figures.json under their name")
	hlo := flags.String("hlo", "", "read this optimised program, a `FILE`, and compile nothing")
	keep := flags.String("keep", "", "keep the optimised program as this `FILE`")
	top := flags.Int("top", 0, "also list the `N` groups of launches with the most of the roof")
	program := flags.String("dump", "", "write the program of the step to this `FILE` and compile nothing")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	step, err := stepOf(*which, set)
	switch {
	case err != nil:
	case *program != "":
		err = dump(step.compile, *program) // It ends the process.
	default:
		err = report(out, step, figures{Step: *which, Name: *name}, *hlo, *keep, *top, args, *write)
	}
	if err != nil {
		fmt.Fprintf(out, "aot: %v\n", err)
		return 1
	}
	return 0
}

// report prints the figures of a step, which have their names only, beside those of figures.json.
func report(out io.Writer, step step, now figures, hlo, keep string, top int, args []string, write bool) error {
	root := backend.CheckoutRoot()
	if root == "" {
		return errors.New("run it in a checkout")
	}
	if hlo == "" {
		work, err := os.MkdirTemp("", "semcon-aot-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(work)
		if hlo, err = compile(out, root, work, args); err != nil {
			return err
		}
	}
	text, err := os.ReadFile(hlo)
	if err != nil {
		return err
	}
	if keep != "" {
		if err := os.WriteFile(keep, text, 0o644); err != nil {
			return err
		}
	}
	if err := now.read(string(text), step); err != nil {
		return fmt.Errorf("%s: %w", hlo, err)
	}
	if memory, err := os.ReadFile(strings.TrimSuffix(hlo, ".txt") + "-memory-usage-report.txt"); err == nil {
		_, total, _ := strings.Cut(string(memory), "Total bytes: ")
		fmt.Sscan(total, &now.MemoryGB)
		now.MemoryGB /= 1e9
	}
	path := filepath.Join(root, folder, "figures.json")
	var all []figures
	if saved, err := os.ReadFile(path); err == nil {
		if err := json.Unmarshal(saved, &all); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	all = append(slices.DeleteFunc(all, func(f figures) bool { return f.Step == now.Step && f.Name == now.Name }), now)
	table(out, slices.DeleteFunc(slices.Clone(all), func(f figures) bool { return f.Step != now.Step }))
	now.list(out, top)
	if !write {
		return nil
	}
	encoded, err := json.MarshalIndent(all, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(encoded, '\n'), 0o644)
}

// compile writes the optimised program of a step for an H200 into the folder work and returns its path.
func compile(out io.Writer, root, work string, args []string) (string, error) {
	python, err := environment(out, root)
	if err != nil {
		return "", err
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	program := filepath.Join(work, "step.mlir")
	if err := tool(self, append(args, "--dump", program)...); err != nil {
		return "", err
	}
	fmt.Fprintln(out, "compiling for an H200")
	dumped := filepath.Join(work, "xla")
	if err := tool(python, filepath.Join(root, folder, "compile.py"), program, dumped); err != nil {
		return "", err
	}
	found, err := filepath.Glob(filepath.Join(dumped, "*gpu_after_optimizations.txt"))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("XLA has left %d optimised programs", len(found))
	}
	return found[0], nil
}

// environment returns the interpreter of the virtual environment with XLA's CUDA plugin, which it makes where it is missing.
func environment(out io.Writer, root string) (python string, err error) {
	venv := filepath.Join(root, backend.SetupDir, "aot")
	python, done := filepath.Join(venv, "bin", "python"), filepath.Join(venv, "installed.txt")
	requirements := filepath.Join(root, folder, "requirements.txt")
	want, err := os.ReadFile(requirements)
	if err != nil {
		return "", err
	}
	if have, err := os.ReadFile(done); err == nil && string(have) == string(want) {
		return python, nil
	}
	fmt.Fprintf(out, "installing XLA's CUDA plugin into %s\n", venv)
	if err := tool("python3", "-m", "venv", venv); err != nil {
		return "", err
	}
	if err := tool(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", requirements); err != nil {
		return "", err
	}
	return python, os.WriteFile(done, want, 0o644)
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
