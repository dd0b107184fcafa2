package main

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"encoding/json"
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

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/sccore/backend"
	"go.yaml.in/yaml/v2"
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

// probe examines the machine. It ends the verb with an error that says what to install.
func (in install) probe(ctx context.Context) (m machine) {
	m.findPython(ctx, in)
	if in.root == "" { // Nothing is built: the plugin is for existing binaries.
		m.cgo = backend.CanLoadXLA()
	} else {
		m.findGo(ctx, in.root)
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
	fail(in.root == "" && m.plugin == "", "there is no XLA plugin for this machine, and nothing else to set up without a checkout")
	return m
}

// findPython finds the Python of the environment if one has been finished, or else the one on the PATH.
func (m *machine) findPython(ctx context.Context, in install) {
	path, err := exec.LookPath("python3")
	finished := exists(in.stampFile(setupStep{name: "Jupyter"})) || exists(in.stampFile(setupStep{name: "Python"}))
	if made, _ := os.ReadFile(in.dir("venv", "pyvenv.cfg")); finished && made != nil { // Another python3, as of conda, is no reason to make a working environment anew.
		if before := regexp.MustCompile(`(?m)^executable = (.+)$`).FindSubmatch(made); before != nil && exec.CommandContext(ctx, string(before[1]), "--version").Run() == nil {
			path, err = string(before[1]), nil
		}
	}
	fail(err != nil, "python3 is not on the PATH: install Python 3.11 or newer (Debian, Ubuntu: apt install python3 python3-venv; macOS: brew install python)")
	lines := ask("cannot run "+path, exec.CommandContext(ctx, path, "-c", "import sys; print(*sys.version_info[:2], sys.executable, sep='\\n')"), 3)
	m.python, m.pythonVersion = lines[2], lines[0]+"."+lines[1]
	minor, err := strconv.Atoi(lines[1])
	fail(err != nil || lines[0] != "3" || minor < 11, "%s is Python %s: JupyterLab needs 3.11 or newer; put a newer python3 first on the PATH", path, m.pythonVersion)
}

var errNoGo = errors.New("go is not on the PATH: install Go 1.26.5 or newer from https://go.dev/dl")

func (m *machine) findGo(ctx context.Context, root string) {
	path, err := exec.LookPath("go")
	if err != nil {
		try.E(errNoGo)
	}
	goEnv := exec.CommandContext(ctx, path, "env", "GOROOT", "GOVERSION", "CGO_ENABLED", "CC")
	goEnv.Dir = root // go.mod may select another toolchain than the one on the PATH.
	lines := ask("go env", goEnv, 4)
	compiler, _, _ := strings.Cut(lines[3], " ")
	_, missing := exec.LookPath(compiler)
	m.goTool, m.goRoot, m.goVersion, m.cgo = path, lines[0], lines[1], lines[2] == "1" && missing == nil
}

// hasGPU reports whether an NVIDIA driver answers, or has left its files where its tools are missing.
func hasGPU(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	return backend.HasGPU() || exec.CommandContext(ctx, "nvidia-smi", "-L").Run() == nil
}

// ask runs a command that prints n lines and returns them. It ends the verb with an error that begins with what.
func ask(what string, command *exec.Cmd, n int) []string {
	out, err := command.Output()
	lines := strings.Split(strings.TrimRight(string(out), "\r\n"), "\n")
	if failed := new(exec.ExitError); errors.As(err, &failed) {
		said, _, _ := strings.Cut(strings.TrimSpace(string(failed.Stderr)), "\n")
		err = fmt.Errorf("%w: %s", err, said)
	} else if err == nil && len(lines) != n {
		err = fmt.Errorf("it printed %q", out)
	}
	fail(err != nil, "%s: %w", what, err)
	return lines
}

// transcript writes the output of a tool to the log, keeps it, and shows its lines. One goroutine writes to it.
type transcript struct {
	log  io.Writer
	show func(line string)
	said bytes.Buffer
}

var (
	faultLine   = regexp.MustCompile(`(?i)\b(error|fatal|cannot|no space left)\b`)
	offlineLine = regexp.MustCompile(`(?i)NewConnectionError|ConnectTimeout|ProxyError|name resolution|not known|no such host|network is unreachable|connection refused|dial tcp|i/o timeout|timed out`)
)

// important are the lines that are not blank. Go prints "# package" before the messages of the compiler.
func important(text []byte) []string {
	return lo.FilterMap(strings.Split(string(text), "\n"), func(line string, _ int) (string, bool) {
		line = strings.TrimSpace(line)
		return line, line != "" && !strings.HasPrefix(line, "#")
	})
}

func (t *transcript) Write(p []byte) (int, error) {
	t.said.Write(p)
	for _, line := range important(p) {
		t.show(line)
	}
	return t.log.Write(p)
}

// explain returns in one line why a task failed, from the output of its tool and the error of running it: the last line that mentions an error, or the last one.
func (t *transcript) explain(err error) string {
	said := err.Error()
	if lines := important(t.said.Bytes()); errors.As(err, new(*exec.ExitError)) && len(lines) > 0 {
		fault, _, _ := lo.FindLastIndexOf(lines, faultLine.MatchString)
		said = cmp.Or(fault, lines[len(lines)-1])
	}
	if offlineLine.Match(t.said.Bytes()) {
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
		try.E(templates.ExecuteTemplate(&text, name, map[string]any{
			"Kernel": in.dir("bin", "gonb"), "Root": in.root, "Headless": headless, "GoFlags": goFlags, "GoplsCache": in.dir("gopls"),
			"Path": in.dir("bin") + ":" + filepath.Join(m.goRoot, "bin") + ":${PATH}",
		}))
		all = append(all, settingsFile{in.dir(file...), text.String()})
	}
	add("server.json", false, "jupyter", "config", "jupyter_server_config.json")
	add("overrides.json", false, "venv", "share", "jupyter", "lab", "settings", "overrides.json")
	add("kernel.json", false, "venv", "share", "jupyter", "kernels", kernelName, "kernel.json")
	add("kernel.json", true, "venv", "share", "jupyter", "kernels", headlessKernelName, "kernel.json")
	return all
}

// gonbModule is the module of the Go kernel, at the version in go.mod.
const gonbModule = "github.com/janpfeifer/gonb"

//go:embed kernel.yaml
var kernelFile string

// kernelChange replaces a text everywhere in a file of the Go kernel.
type kernelChange struct{ File, Old, New string }

// kernelChanges are those of kernel.yaml, which says what they are for.
func kernelChanges() (changes []kernelChange) {
	try.E(yaml.UnmarshalStrict([]byte(kernelFile), &changes)) // The tests read it.
	return changes
}

// installKernel returns the task that builds the tools in go.mod, the Go kernel with [kernelChanges] among them: from a copy of its module, with a go.mod beside the
// project's own.
func (in install) installKernel(m machine) setupTask {
	folder := in.dir("kernel")
	build := in.goTask(m, "install", "-modfile="+filepath.Join(folder, "go.mod"), "tool")
	return setupTask{"Go kernel", func(ctx context.Context, out *transcript) error {
		download := exec.CommandContext(ctx, m.goTool, "mod", "download", "-json", gonbModule)
		download.Dir, download.Env, download.Stderr = in.root, append(os.Environ(), "GOWORK=off"), out
		said, err := download.Output()
		var module struct{ Dir, Error string }
		if json.Unmarshal(said, &module); err != nil {
			out.Write([]byte(module.Error + "\n"))
			return err
		}
		changed := filepath.Join(folder, "gonb")
		try.E(os.RemoveAll(folder))
		try.E(os.CopyFS(changed, os.DirFS(module.Dir)))
		try.E(changeKernel(changed))
		mod, sum := try.E1(os.ReadFile(filepath.Join(in.root, "go.mod"))), try.E1(os.ReadFile(filepath.Join(in.root, "go.sum")))
		try.E(atomicfile.WriteBytes(filepath.Join(folder, "go.mod"), fmt.Appendf(mod, "\nreplace %s => %q\n", gonbModule, changed)))
		try.E(atomicfile.WriteBytes(filepath.Join(folder, "go.sum"), sum))
		return build(ctx, out)
	}}
}

// changeKernel makes the changes in a copy of the Go kernel's module.
func changeKernel(module string) (err error) {
	defer try.Handle(&err)
	for _, c := range kernelChanges() {
		file := filepath.Join(module, c.File)
		content := try.E1(os.ReadFile(file))
		fail(!bytes.Contains(content, []byte(c.Old)), "%s of this version of the Go kernel has no %q, which set-up changes", c.File, c.Old)
		try.E(os.WriteFile(file, bytes.ReplaceAll(content, []byte(c.Old), []byte(c.New)), 0o666))
	}
	return nil
}
