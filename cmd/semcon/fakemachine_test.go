package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakeMachine is a PATH of scripts that replace Python, Go and the C compiler, and a checkout, so that tests can set it up in milliseconds and make any part of it
// fail. Tests control the scripts through environment variables; see the scripts below.
type fakeMachine struct {
	Checkout string
	bin      string
	calls    string
}

// newMachine creates a machine and sets the PATH of the test to it.
func newMachine(t *testing.T) *fakeMachine {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	m := &fakeMachine{Checkout: filepath.Join(dir, "checkout"), bin: filepath.Join(dir, "bin"), calls: filepath.Join(dir, "calls")}
	m.Write(t, "go.mod", "module github.com/semcon/semcon\n")
	m.Write(t, "go.sum", "")
	m.Write(t, "tools/gopls/go.mod", "module github.com/semcon/semcon/tools/gopls\n")
	m.Write(t, "tools/gopls/go.sum", "")
	m.Write(t, "cmd/semcon/main.go", "package main\n")
	m.Write(t, "notebooks/one.ipynb", `{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}`)
	kernel := map[string]string{}
	for _, c := range kernelChanges() {
		kernel[c.File] += c.Old
	}
	for name, text := range kernel {
		m.Write(t, filepath.Join("../gonb", name), text)
	}
	t.Setenv("FAKE_GONB", filepath.Join(dir, "gonb"))
	for name, text := range fakeScripts {
		m.script(t, name, text)
	}
	t.Setenv("PATH", m.bin+":/usr/bin:/bin")
	for _, name := range []string{"SEMCON_DATA", "SEMCON_OUT", "SEMCON_PROFILE", "GOMLX_BACKEND"} {
		t.Setenv(name, "") // Hides the values of the real shell.
	}
	t.Setenv("FAKE_CALLS", m.calls)
	t.Setenv("FAKE_PYTHON", filepath.Join(m.bin, "python3"))
	return m
}

var fakeScripts = map[string]string{
	"gcc":        "exit 0\n",
	"nvidia-smi": `[ -n "$FAKE_GPU" ]` + "\n",
	"go": `
case "$1" in
env) printf '/goroot\ngo1.26.8\n%s\ngcc\n' "${FAKE_CGO-1}" ;;
install) mkdir -p "$GOBIN"; touch "$GOBIN/gonb" "$GOBIN/goimports" ;;
mod) [ -z "$3" ] || echo "{\"Dir\": \"$FAKE_GONB\"}" ;;
-C) mkdir -p "$GOBIN"; touch "$GOBIN/gopls" ;;
build) if [ -n "$FAKE_BUILD_ERROR" ]; then echo '# example/package'; echo "$FAKE_BUILD_ERROR"; exit 1; fi ;;
esac
`,
	"python3": `
venv=$(dirname "$(dirname "$0")")
case "$1 $2" in
"-c import sys"*) printf '3\n%s\n%s\n' "${FAKE_PYTHON_MINOR-12}" "$FAKE_PYTHON" ;;
"-c import venv"*) [ -z "$FAKE_NO_VENV" ] ;;
"-m venv") mkdir -p "$3/bin"; cp "$0" "$3/bin/python" ;;
"-m pip")
	if [ -n "$FAKE_PIP_HANGS" ]; then touch "$venv/half-made"; exec sleep 60; fi
	if [ -n "$FAKE_PIP_ERROR" ]; then printf '%b\n' "$FAKE_PIP_ERROR"; exit 1; fi
	touch "$venv/bin/jupyter-lab"
	case "$(cat)" in
	*xla-cpu-pjrt*)
		plugin="$venv/lib/python3.12/site-packages/xla_plugins/xla_cpu_pjrt"
		mkdir -p "$plugin"; touch "$plugin/xla_cpu_pjrt.so" ;;
	esac ;;
"-m jupyterlab") shift 2; eval "exec ${FAKE_LAB-false}" ;;
"-c "*) shift 2; eval "${FAKE_EXECUTION-false}" ;;
esac
`,
}

func (m *fakeMachine) script(t *testing.T, name, text string) {
	t.Helper()
	// Only the first line of the arguments is recorded, because a program after -c is long.
	text = "#!/bin/sh\n" + `printf '%s\n' "` + name + ` $*" | head -1 >> "$FAKE_CALLS"` + "\n" + text
	if err := os.MkdirAll(m.bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(m.bin, name), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// Without removes a program, and hides the system's own programs.
func (m *fakeMachine) Without(t *testing.T, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(m.bin, name)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", m.bin)
}

// Calls returns the command lines of the scripts since the last call of Calls, without those that only query.
func (m *fakeMachine) Calls(t *testing.T) []string {
	t.Helper()
	noted, err := os.ReadFile(m.calls)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(m.calls, 0); err != nil {
		t.Fatal(err)
	}
	var calls []string
	for line := range strings.Lines(string(noted)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "go env") && !strings.HasPrefix(line, "python3 -c import") && !strings.HasPrefix(line, "nvidia-smi") {
			calls = append(calls, strings.ReplaceAll(line, m.Checkout+"/", ""))
		}
	}
	return calls
}

// Path joins path elements to the checkout.
func (m *fakeMachine) Path(elements ...string) string {
	return filepath.Join(append([]string{m.Checkout}, elements...)...)
}

// Write writes a file of the checkout.
func (m *fakeMachine) Write(t *testing.T, name, content string) {
	t.Helper()
	path := m.Path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
