package main

import (
	"encoding/json"
	"go/format"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestKernelJSON(t *testing.T) {
	_, in := newInstall(t)
	ensure(t, in)
	content, err := os.ReadFile(in.jupyterSettings(machine{})[2].file)
	if err != nil {
		t.Fatal(err)
	}
	var kernel struct {
		Argv          []string
		Language      string
		InterruptMode string `json:"interrupt_mode"`
		Env           map[string]string
	}
	if err := json.Unmarshal(content, &kernel); err != nil {
		t.Fatal(err)
	}
	if kernel.Argv[0] != in.root+"/.semcon/bin/gonb" || kernel.Language != "go" || kernel.InterruptMode != "message" {
		t.Errorf("kernel %+v", kernel)
	}
	for _, flag := range []string{"{connection_file}", "-go_work=" + in.root} {
		if !slices.Contains(kernel.Argv, flag) {
			t.Errorf("no %s in %q", flag, kernel.Argv)
		}
	}
	if headless := in.jupyterSettings(machine{})[3].content; !strings.Contains(headless, "-raw_error=true") || slices.Contains(kernel.Argv, "-raw_error=true") {
		t.Errorf("a compiler's message belongs into the error without a browser, %s, and into a page with one, %q", headless, kernel.Argv)
	}
	if want := in.root + "/.semcon/bin:/goroot/bin:${PATH}"; kernel.Env["PATH"] != want {
		t.Errorf("PATH %q, want %q", kernel.Env["PATH"], want)
	}
	if kernel.Env["GOPROXY"] != "off" || !strings.Contains(kernel.Env["GOFLAGS"], "-ldflags=-w") {
		t.Errorf("env %q", kernel.Env)
	}
	if workspace, set := kernel.Env["GOWORK"]; !set || workspace != "" {
		t.Errorf("a GOWORK of the shell, now %q, would hide the kernel's own workspace", workspace)
	}
	if _, fixed := kernel.Env["GOMLX_BACKEND"]; fixed {
		t.Error("kernel.json fixes GOMLX_BACKEND, which belongs to the user's shell")
	}
}

// TestKernelChangesFitItsVersion makes the changes in the kernel of go.mod.
func TestKernelChangesFitItsVersion(t *testing.T) {
	said, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", gonbModule).Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "gonb")
	if err := os.CopyFS(dir, os.DirFS(strings.TrimSpace(string(said)))); err != nil {
		t.Fatal(err)
	}
	if err := changeKernel(dir); err != nil {
		t.Fatal(err)
	}
	for _, c := range kernelChanges() {
		content, err := os.ReadFile(filepath.Join(dir, c.File))
		if err != nil {
			t.Fatal(err)
		}
		if formatted, err := format.Source(content); err != nil {
			t.Errorf("%s: %v", c.File, err)
		} else if len(formatted) == 0 {
			t.Errorf("%s is empty", c.File)
		}
	}
}

func TestKernelOfAnotherVersion(t *testing.T) {
	m, in := newInstall(t)
	m.Write(t, "../gonb/"+kernelChanges()[0].File, "package goplsclient\n")
	err := in.ensure(t.Context(), io.Discard)
	if err == nil || !strings.Contains(err.Error(), kernelChanges()[0].File+" of this version of the Go kernel has no") {
		t.Errorf("error %v", err)
	}
}

func TestServerListensAndShowsOnlyWhatItShould(t *testing.T) {
	_, in := newInstall(t)
	var settings struct {
		ServerApp         map[string]any
		KernelSpecManager map[string]any
	}
	if err := json.Unmarshal([]byte(in.jupyterSettings(machine{})[0].content), &settings); err != nil {
		t.Fatal(err)
	}
	for _, open := range []string{"ip", "token", "password", "allow_origin"} {
		if value, set := settings.ServerApp[open]; set {
			t.Errorf("the settings change %s to %v", open, value)
		}
	}
}

func TestJupyterStaysOutOfTheHomeFolder(t *testing.T) {
	_, in := newInstall(t)
	t.Setenv("JUPYTER_CONFIG_DIR", "/elsewhere")
	t.Setenv("PYTHONPATH", "/elsewhere")
	env := map[string]string{} // The last of several entries of a name counts.
	for _, entry := range in.environ() {
		name, value, _ := strings.Cut(entry, "=")
		env[name] = value
	}
	for _, name := range []string{"JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"} {
		if !strings.HasPrefix(env[name], in.dir()+"/") {
			t.Errorf("%s=%s, want a folder of %s", name, env[name], in.dir())
		}
	}
	if value := env["PYTHONPATH"]; value != "" { // Python takes an empty one for none.
		t.Errorf("PYTHONPATH=%s", value)
	}
	if !strings.HasPrefix(env["PATH"], in.dir("venv", "bin")+":") {
		t.Errorf("PATH=%s", env["PATH"])
	}
}
