package setup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/semcon/semcon/sccore/backend"
)

// machine describes this computer.
type machine struct {
	python        string // Path of the interpreter.
	pythonVersion string // "3.11".

	goTool    string // Path of the go command.
	goRoot    string
	goVersion string // "go1.26.8".
	cgo       bool   // Whether Go has a C compiler.

	plugin string   // Python packages of the XLA plugin for this machine; empty if there is none.
	limits []string // One line for each thing that this machine does not support.
}

// platform is a variable for the tests.
var platform = runtime.GOOS + "/" + runtime.GOARCH

// probe examines the machine. Its errors say what to install.
func (in Install) probe(ctx context.Context) (machine, error) {
	var m machine
	if err := m.findPython(ctx); err != nil {
		return m, err
	}
	if in.root == "" { // Nothing is built: the plugin is for existing binaries.
		m.cgo = backend.CanLoadXLA()
	} else if err := m.findGo(ctx, in.root); err != nil {
		return m, err
	}
	m.choosePlugin(ctx)
	return m, nil
}

func (m *machine) findPython(ctx context.Context) error {
	path, err := exec.LookPath("python3")
	if err != nil {
		return errors.New("python3 is not on the PATH: install Python 3.11 or newer (Debian, Ubuntu: apt install python3 python3-venv; macOS: brew install python)")
	}
	lines, err := ask(exec.CommandContext(ctx, path, "-c", "import sys; print(*sys.version_info[:2], sys.executable, sep='\\n')"), 3)
	if err != nil {
		return fmt.Errorf("cannot run %s: %w", path, err)
	}
	m.python, m.pythonVersion = lines[2], lines[0]+"."+lines[1]
	if minor, err := strconv.Atoi(lines[1]); err != nil || lines[0] != "3" || minor < 11 {
		return fmt.Errorf("%s is Python %s: JupyterLab needs 3.11 or newer; put a newer python3 first on the PATH", path, m.pythonVersion)
	}
	return nil
}

func (m *machine) findGo(ctx context.Context, root string) error {
	path, err := exec.LookPath("go")
	if err != nil {
		return errors.New("go is not on the PATH: install Go 1.26.5 or newer from https://go.dev/dl")
	}
	goEnv := exec.CommandContext(ctx, path, "env", "GOROOT", "GOVERSION", "CGO_ENABLED", "CC")
	goEnv.Dir = root // go.mod may select another toolchain than the one on the PATH.
	lines, err := ask(goEnv, 4)
	if err != nil {
		return fmt.Errorf("go env: %w", err)
	}
	m.goTool, m.goRoot, m.goVersion = path, lines[0], lines[1]
	compiler, _, _ := strings.Cut(lines[3], " ")
	_, missing := exec.LookPath(compiler)
	m.cgo = lines[2] == "1" && missing == nil
	return nil
}

func (m *machine) choosePlugin(ctx context.Context) {
	switch {
	case !m.cgo:
		m.limits = append(m.limits, "no C compiler, so only the slow pure-Go backend, without XLA (Debian, Ubuntu: apt install build-essential; then run this again)")
	case platform != "linux/amd64":
		m.limits = append(m.limits, "no XLA plugin for "+platform+", so only the slow pure-Go backend, unless GOMLX_BACKEND names a plugin of your own")
	case hasGPU(ctx) || os.Getenv(GPUVariable) == "1":
		m.plugin = xlaCPUPackages + xlaCUDAPackages
	default:
		m.plugin = xlaCPUPackages
	}
}

// GPUVariable set to 1 installs the plugin for GPUs where none is seen, such as while a container image is built.
const GPUVariable = "SEMCON_GPU"

// hasGPU reports whether an NVIDIA driver answers, or has left its files where its tools are missing.
func hasGPU(ctx context.Context) bool {
	if backend.HasGPU() {
		return true
	}
	path, err := exec.LookPath("nvidia-smi")
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	return exec.CommandContext(ctx, path, "-L").Run() == nil
}

// ask runs a command that prints n lines and returns them.
func ask(command *exec.Cmd, n int) ([]string, error) {
	out, err := command.Output()
	if failed := new(exec.ExitError); errors.As(err, &failed) {
		said, _, _ := strings.Cut(strings.TrimSpace(string(failed.Stderr)), "\n")
		return nil, fmt.Errorf("%w: %s", err, said)
	} else if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimRight(string(out), "\r\n"), "\n")
	if len(lines) != n {
		return nil, fmt.Errorf("it printed %q", out)
	}
	return lines, nil
}
