package main

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"text/template"
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

// gpuVariable set to 1 installs the plugin for GPUs where none is seen, such as while a container image is built.
const gpuVariable = "SEMCON_GPU"

// probe examines the machine. Its errors say what to install.
func (in install) probe(ctx context.Context) (m machine, err error) {
	if err := m.findPython(ctx); err != nil {
		return m, err
	}
	if in.root == "" { // Nothing is built: the plugin is for existing binaries.
		m.cgo = backend.CanLoadXLA()
	} else if err := m.findGo(ctx, in.root); err != nil {
		return m, err
	}
	switch {
	case !m.cgo:
		m.limits = append(m.limits, "no C compiler, so only the slow pure-Go backend, without XLA (Debian, Ubuntu: apt install build-essential; then run this again)")
	case platform != "linux/amd64":
		m.limits = append(m.limits, "no XLA plugin for "+platform+", so only the slow pure-Go backend, unless GOMLX_BACKEND names a plugin of your own")
	case hasGPU(ctx) || os.Getenv(gpuVariable) == "1":
		m.plugin = xlaCPUPackages + xlaCUDAPackages
	default:
		m.plugin = xlaCPUPackages
	}
	if in.root == "" && m.plugin == "" {
		return m, errors.New("there is no XLA plugin for this machine, and nothing else to set up without a checkout")
	}
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

var errNoGo = errors.New("go is not on the PATH: install Go 1.26.5 or newer from https://go.dev/dl")

func (m *machine) findGo(ctx context.Context, root string) error {
	path, err := exec.LookPath("go")
	if err != nil {
		return errNoGo
	}
	goEnv := exec.CommandContext(ctx, path, "env", "GOROOT", "GOVERSION", "CGO_ENABLED", "CC")
	goEnv.Dir = root // go.mod may select another toolchain than the one on the PATH.
	lines, err := ask(goEnv, 4)
	if err != nil {
		return fmt.Errorf("go env: %w", err)
	}
	compiler, _, _ := strings.Cut(lines[3], " ")
	_, missing := exec.LookPath(compiler)
	m.goTool, m.goRoot, m.goVersion, m.cgo = path, lines[0], lines[1], lines[2] == "1" && missing == nil
	return nil
}

// hasGPU reports whether an NVIDIA driver answers, or has left its files where its tools are missing.
func hasGPU(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	return backend.HasGPU() || exec.CommandContext(ctx, "nvidia-smi", "-L").Run() == nil
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

// transcript writes the output of a tool to the log, shows its lines, and remembers the important ones. One goroutine writes to it.
type transcript struct {
	log  io.Writer
	show func(line string)

	partial []byte
	latest  string // The last line that is not blank.
	fault   string // The last line that mentions an error.
	offline bool   // Whether a line mentions a failed connection.
}

var (
	faultLine   = regexp.MustCompile(`(?i)\b(error|fatal|cannot|no space left)\b`)
	offlineLine = regexp.MustCompile(`(?i)NewConnectionError|ConnectTimeout|ProxyError|name resolution|not known|no such host|network is unreachable|connection refused|dial tcp|i/o timeout|timed out`)
)

func (t *transcript) Write(p []byte) (int, error) {
	t.partial = append(t.partial, p...)
	for end := bytes.IndexByte(t.partial, '\n'); end >= 0; end = bytes.IndexByte(t.partial, '\n') {
		t.note(t.partial[:end])
		t.partial = t.partial[end+1:]
	}
	return t.log.Write(p)
}

func (t *transcript) note(text []byte) {
	line := strings.TrimSpace(string(text))
	if line == "" || strings.HasPrefix(line, "#") {
		return // Go prints "# package" before the messages of the compiler.
	}
	t.latest = line
	if faultLine.MatchString(line) {
		t.fault = line
	}
	t.offline = t.offline || offlineLine.MatchString(line)
	t.show(line)
}

// explain returns in one line why a task failed, from the output of its tool and the error of running it.
func (t *transcript) explain(err error) string {
	t.note(t.partial)
	said := err.Error()
	if errors.As(err, new(*exec.ExitError)) {
		said = cmp.Or(t.fault, t.latest, said)
	}
	if t.offline {
		said += " (no connection: set-up downloads packages once; go online or set the proxies of pip and Go, then run this again)"
	}
	return said
}

// kernelName is the name of the Go kernel in notebooks. headlessKernelName is the same kernel for execution without a browser.
const (
	kernelName         = "gonb"
	headlessKernelName = "gonb-headless"
)

// environ returns the environment for Jupyter's programs: the caller's, with all of Jupyter's folders inside .semcon, so that the home folder stays unchanged.
func (in install) environ() []string {
	return append(append(os.Environ(), cleanPython...),
		"PATH="+in.dir("venv", "bin")+":"+os.Getenv("PATH"),
		"VIRTUAL_ENV=", "JUPYTER_PATH=", "JUPYTER_CONFIG_PATH=",
		"JUPYTER_PREFER_ENV_PATH=1",
		"JUPYTER_CONFIG_DIR="+in.dir("jupyter", "config"),
		"JUPYTER_DATA_DIR="+in.dir("jupyter", "data"),
		"JUPYTER_RUNTIME_DIR="+in.dir("jupyter", "runtime"),
		"IPYTHONDIR="+in.dir("jupyter", "ipython"),
	)
}

// jupyterFiles are templates of Jupyter's settings. kernel.json describes the Go kernel. The kernel inherits the environment of the shell, including
// GOMLX_BACKEND; "env" overrides it. The cells see the packages of the checkout. The kernel runs "go get" before each cell, which would look for newer versions
// than those in go.mod. gopls, which completes code, would otherwise write to the home folder. Without a browser, the error contains the compiler's message,
// for logs; a browser gets a page that names the cell and the line. server.json lets the server run as root, as in containers: it listens only on this
// machine and asks for a token. It allows only the kernel of the notebooks. The search for language servers would find none, and leave npm files in the home
// folder. overrides.json keeps JupyterLab from asking whether it may fetch news, and shows Markdown files rendered. The first completion of a kernel reads the
// packages, which takes longer than JupyterLab's default of a second.
//
//go:embed jupyter
var jupyterFiles embed.FS

type settingsFile struct{ file, content string }

// jupyterSettings are the settings of Jupyter: the server, JupyterLab, and both kernels.
func (in install) jupyterSettings(m machine) (all []settingsFile) {
	templates := template.Must(template.ParseFS(jupyterFiles, "jupyter/*"))
	add := func(name string, headless bool, file ...string) {
		var text strings.Builder
		err := templates.ExecuteTemplate(&text, name, map[string]any{
			"Kernel": in.dir("bin", "gonb"), "Root": in.root, "Headless": headless, "GoFlags": goFlags, "GoplsCache": in.dir("gopls"),
			"Path": in.dir("bin") + ":" + filepath.Join(m.goRoot, "bin") + ":${PATH}",
		})
		if err != nil {
			panic(err) // Texts always print.
		}
		all = append(all, settingsFile{in.dir(file...), text.String()})
	}
	add("server.json", false, "jupyter", "config", "jupyter_server_config.json")
	add("overrides.json", false, "venv", "share", "jupyter", "lab", "settings", "overrides.json")
	add("kernel.json", false, "venv", "share", "jupyter", "kernels", kernelName, "kernel.json")
	add("kernel.json", true, "venv", "share", "jupyter", "kernels", headlessKernelName, "kernel.json")
	return all
}
