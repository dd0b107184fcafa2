package setup

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"time"
)

// command returns a task that runs a program in the checkout, or else in the folder of the set-up, with env added to the environment.
func (in Install) command(env []string, program string, args ...string) func(context.Context, *transcript) error {
	return func(ctx context.Context, out *transcript) error {
		c := exec.CommandContext(ctx, program, args...)
		if c.Dir = in.root; c.Dir == "" {
			c.Dir = in.folder
		}
		c.Env = append(os.Environ(), env...)
		c.Stdout, c.Stderr = out, out
		c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
		c.WaitDelay = 10 * time.Second
		DieWithParent(c)
		return c.Run()
	}
}

// makeVenv creates an empty Python environment and removes what an interrupted set-up left.
func (in Install) makeVenv(m machine) func(context.Context, *transcript) error {
	return func(ctx context.Context, out *transcript) error {
		if exec.CommandContext(ctx, m.python, "-c", "import venv, ensurepip").Run() != nil {
			return errors.New(m.python + " has no venv module (Debian, Ubuntu: apt install python3-venv; then run this again)")
		}
		if err := os.RemoveAll(in.Dir("venv")); err != nil {
			return err
		}
		return in.command(cleanPython, m.python, "-m", "venv", in.Dir("venv"))(ctx, out)
	}
}

// pip returns a task that installs the packages of a requirements file into the Python environment.
func (in Install) pip(requirements string, flags ...string) func(context.Context, *transcript) error {
	return func(ctx context.Context, out *transcript) error {
		file := in.Dir("requirements.txt")
		if err := os.WriteFile(file, []byte(requirements), 0o644); err != nil {
			return err
		}
		defer os.Remove(file)
		args := append([]string{"-m", "pip", "install", "--no-input", "--progress-bar=off", "--disable-pip-version-check", "-r", file}, flags...)
		return in.command(cleanPython, in.Python(), args...)(ctx, out)
	}
}

// cleanPython keeps the user's own Python packages out of the environment.
var cleanPython = []string{"PYTHONNOUSERSITE=1", "PYTHONPATH=", "PYTHONHOME=", "PIP_USER=0"}
