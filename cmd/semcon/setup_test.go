package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/semcon/semcon/internal/filelock"
	"github.com/semcon/semcon/sccore/backend"
)

func newInstall(t *testing.T) (*fakeMachine, install) {
	t.Helper()
	platform = "linux/amd64"
	m := newMachine(t)
	in, err := installAt(m.Checkout)
	if err != nil {
		t.Fatal(err)
	}
	return m, in
}

func ensure(t *testing.T, in install) string {
	t.Helper()
	var out bytes.Buffer
	if err := in.ensure(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func wantCalls(t *testing.T, m *fakeMachine, want ...string) {
	t.Helper()
	got := m.Calls(t)
	for i, call := range got { // The flags of pip are not what these tests are about.
		if command, _, isPip := strings.Cut(call, " install --no-input"); isPip {
			got[i] = command
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("called:\n  %s\nwant:\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func TestEverythingIsDoneOnce(t *testing.T) {
	m, in := newInstall(t)
	out := ensure(t, in)
	wantCalls(t, m, "python3 -m venv .semcon/venv", "python3 -m pip", "python3 -m pip", "go mod download -json github.com/janpfeifer/gonb", "go install -modfile=.semcon/kernel/go.mod tool", "go -C tools/gopls install tool", "go mod download", "go build ./...")
	if !strings.Contains(out, "8/8  100%") {
		t.Errorf("the bar ends with %q", out)
	}
	for _, file := range []string{"venv/bin/python", "bin/gonb", "venv/share/jupyter/kernels/gonb/kernel.json", "setup.log"} {
		if _, err := os.Stat(in.dir(file)); err != nil {
			t.Error(err)
		}
	}
	if out := ensure(t, in); out != "" {
		t.Errorf("the second time it says %q", out)
	}
	wantCalls(t, m)
}

func isPending(s setupStep) bool { return s.pending }

func TestOnlyWhatChangedIsDoneAgain(t *testing.T) {
	m, in := newInstall(t)
	ensure(t, in)
	m.Calls(t)

	m.Write(t, "go.sum", "a new module\n")
	ensure(t, in)
	wantCalls(t, m, "go mod download -json github.com/janpfeifer/gonb", "go install -modfile=.semcon/kernel/go.mod tool", "go mod download", "go build ./...")

	m.Write(t, "tools/gopls/go.sum", "a new version\n")
	ensure(t, in)
	wantCalls(t, m, "go -C tools/gopls install tool")

	if err := os.RemoveAll(in.dir("venv", "lib")); err != nil {
		t.Fatal(err)
	}
	ensure(t, in)
	wantCalls(t, m, "python3 -m pip")

	t.Setenv("FAKE_PYTHON_MINOR", "13")
	ensure(t, in)
	wantCalls(t, m, "python3 -m venv .semcon/venv", "python3 -m pip", "python3 -m pip")
	if steps, _, err := in.state(t.Context()); err != nil || slices.ContainsFunc(steps, isPending) {
		t.Errorf("left to do: %v, %v", steps, err)
	}
}

func TestInterruptedStepStartsAgainFromItsBeginning(t *testing.T) {
	m, in := newInstall(t)
	t.Setenv("FAKE_PIP_HANGS", "yes")
	ctx, interrupt := context.WithCancel(t.Context())
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(in.dir("venv", "half-made")); err == nil {
				interrupt()
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	if err := in.ensure(ctx, io.Discard); !errors.Is(err, context.Canceled) {
		t.Fatalf("interrupted: %v", err)
	}
	m.Calls(t)
	os.Unsetenv("FAKE_PIP_HANGS")
	ensure(t, in)
	wantCalls(t, m, "python3 -m venv .semcon/venv", "python3 -m pip", "python3 -m pip", "go mod download -json github.com/janpfeifer/gonb", "go install -modfile=.semcon/kernel/go.mod tool", "go -C tools/gopls install tool", "go mod download", "go build ./...")
	if _, err := os.Stat(in.dir("venv", "half-made")); err == nil {
		t.Error("the half-made environment was kept")
	}
}

func TestEnvironmentMadeByHandIsReplaced(t *testing.T) {
	m, in := newInstall(t)
	m.Write(t, ".semcon/venv/bin/python", "")
	m.Write(t, ".semcon/venv/bin/jupyter-lab", "")
	m.Write(t, ".semcon/venv/by-hand", "")
	ensure(t, in)
	if _, err := os.Stat(in.dir("venv", "by-hand")); err == nil {
		t.Error("the environment without a stamp was kept")
	}
}

func TestFailureIsOneLineThatNamesStepReasonAndLog(t *testing.T) {
	for _, test := range []struct{ name, variable, output, want string }{
		{"pip", "FAKE_PIP_ERROR", "Collecting jupyterlab\\nERROR: No matching distribution found for jupyterlab\\n\\nbye",
			`set-up step "JupyterLab": ERROR: No matching distribution found for jupyterlab; the log is `},
		{"offline", "FAKE_PIP_ERROR", "WARNING: Retrying: NewConnectionError(...)\\nERROR: No matching distribution found for jupyterlab",
			`set-up step "JupyterLab": ERROR: No matching distribution found for jupyterlab (no connection: set-up downloads packages once; go online or set the proxies of pip and Go, then run this again); the log is `},
		{"disk full", "FAKE_PIP_ERROR", "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
			`set-up step "JupyterLab": ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device; the log is `},
		{"build", "FAKE_BUILD_ERROR", "sccore/loop.go:3:1: undefined: step",
			`set-up step "build of the project": sccore/loop.go:3:1: undefined: step; the log is `},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, in := newInstall(t)
			t.Setenv(test.variable, test.output)
			err := in.ensure(t.Context(), io.Discard)
			if err == nil || err.Error() != test.want+in.dir("setup.log") {
				t.Errorf("error %v\nwant  %s", err, test.want+in.dir("setup.log"))
			}
			log, err := os.ReadFile(in.dir("setup.log"))
			lastLine := test.output[strings.LastIndex(test.output, `\n`)+1:]
			if err != nil || !strings.Contains(string(log), strings.TrimPrefix(lastLine, "n")) {
				t.Errorf("the log holds %q", log)
			}
			t.Setenv(test.variable, "")
			ensure(t, in)
		})
	}
}

func TestMachineThatLacksSomethingNeeded(t *testing.T) {
	for _, test := range []struct {
		name string
		take func(t *testing.T, m *fakeMachine)
		want string
	}{
		{"python", func(t *testing.T, m *fakeMachine) { m.Without(t, "python3") }, "python3 is not on the PATH: install Python 3.11"},
		{"go", func(t *testing.T, m *fakeMachine) {
			m.Without(t, "go")
			t.Setenv("PATH", os.Getenv("PATH")+":/bin")
		},
			"go is not on the PATH: install Go"},
		{"new python", func(t *testing.T, m *fakeMachine) { t.Setenv("FAKE_PYTHON_MINOR", "9") }, "is Python 3.9: JupyterLab needs 3.11"},
		{"venv module", func(t *testing.T, m *fakeMachine) { t.Setenv("FAKE_NO_VENV", "yes") }, "apt install python3-venv"},
	} {
		t.Run(test.name, func(t *testing.T) {
			m, in := newInstall(t)
			test.take(t, m)
			err := in.ensure(t.Context(), io.Discard)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v, want one line with %q", err, test.want)
			}
		})
	}
}

func TestPluginForThisMachine(t *testing.T) {
	for _, test := range []struct{ name, variable, value, platform, plugin, limit string }{
		{"processor", "", "", "linux/amd64", "xla-cpu-pjrt==", ""},
		{"GPU", "FAKE_GPU", "yes", "linux/amd64", "jax-cuda13-pjrt==", ""},
		{"GPU that is not seen", gpuVariable, "1", "linux/amd64", "jax-cuda13-pjrt==", ""},
		{"no compiler", "FAKE_CGO", "0", "linux/amd64", "", "no C compiler, so only the slow pure-Go backend"},
		{"no wheel", "", "", "darwin/arm64", "", "no XLA plugin for darwin/arm64"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, in := newInstall(t)
			if test.variable != "" {
				t.Setenv(test.variable, test.value)
			}
			platform = test.platform
			m := in.probe(t.Context())
			if !strings.Contains(m.plugin, test.plugin) || (m.plugin == "") != (test.plugin == "") {
				t.Errorf("plugin packages %q, want %q", m.plugin, test.plugin)
			}
			if !strings.Contains(strings.Join(m.limits, "\n"), test.limit) || (len(m.limits) == 0) != (test.limit == "") {
				t.Errorf("limits %q, want %q", m.limits, test.limit)
			}
			out := ensure(t, in)
			if !strings.Contains(out, test.limit) {
				t.Errorf("set-up does not print %q: %q", test.limit, out)
			}
			steps, _, err := in.state(t.Context())
			isPlugin := func(s setupStep) bool { return s.name == "XLA plugin" }
			if err != nil || slices.ContainsFunc(steps, isPlugin) != (test.plugin != "") || slices.ContainsFunc(steps, isPending) {
				t.Errorf("steps %v, %v", steps, err)
			}
		})
	}
}

// TestSetUpWithoutACheckout installs the plugin into the user's cache on a machine without Go.
func TestSetUpWithoutACheckout(t *testing.T) {
	m, _ := newInstall(t)
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	m.Without(t, "go")
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/bin:/bin")
	in, err := installOf(true)
	if err != nil {
		t.Fatal(err)
	}
	if !backend.CanLoadXLA() {
		if err := in.ensure(t.Context(), io.Discard); err == nil {
			t.Error("a plugin is set up for a binary that cannot load it")
		}
		return
	}
	ensure(t, in)
	wantCalls(t, m, "python3 -m venv "+cache+"/semcon/venv", "python3 -m pip")
	if plugin := "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so"; !exists(in.dir("venv", "lib", "python3.12", "site-packages", plugin)) {
		t.Errorf("no %s in %s", plugin, in.dir())
	}
	if out := ensure(t, in); out != "" {
		t.Errorf("the second time it says %q", out)
	}
}

// listener is a writer that is told what is written.
type listener func(text string)

func (l listener) Write(p []byte) (int, error) { l(string(p)); return len(p), nil }

func TestSecondSetUpWaitsForTheFirst(t *testing.T) {
	_, in := newInstall(t)
	if err := os.MkdirAll(in.dir(), 0o777); err != nil {
		t.Fatal(err)
	}
	unlock, free, err := filelock.Try(in.dir(setupLock))
	if err != nil || !free {
		t.Fatal(free, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	said := ""
	if err := in.ensure(ctx, listener(func(text string) { said += text; cancel() })); !errors.Is(err, context.Canceled) {
		t.Errorf("the lock is held, but another set-up gives %v", err)
	}
	if !strings.Contains(said, "waiting for another set-up in ") {
		t.Errorf("it says %q", said)
	}
	unlock()
	ensure(t, in)
}

func TestPathThatTheKernelCannotTake(t *testing.T) {
	for _, name := range []string{"a,b", "a[b"} {
		if _, err := installAt(filepath.Join(t.TempDir(), name)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTheEnvironmentKeepsItsPython: another python3 first on the PATH, as of conda, is no reason to make a working environment anew.
func TestTheEnvironmentKeepsItsPython(t *testing.T) {
	m, in := newInstall(t)
	m.Write(t, ".semcon/stamps/Jupyter", "made")
	m.script(t, "before", `[ "$1" = --version ] || printf '3\n12\n/opt/before\n'`)
	for executable, want := range map[string]string{filepath.Join(m.bin, "before"): "/opt/before", "/opt/removed": os.Getenv("FAKE_PYTHON")} {
		if err := os.MkdirAll(in.dir("venv"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(in.dir("venv", "pyvenv.cfg"), []byte("home = /opt\nexecutable = "+executable+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := in.probe(t.Context()).python; got != want {
			t.Errorf("made by %s: %s, want %s", executable, got, want)
		}
	}
}
