package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/sccore/study"
	"github.com/spf13/cobra"
)

func labVerb(c *cobra.Command, flags flagTexts) {
	var f struct {
		Port                                    int
		NoBrowser, Originals, SetupOnly, Global bool
		Profile, Data                           string
	}
	flags.bind(c, &f)
	complete(c, "profile", profileNames()...)
	c.Run = func(c *cobra.Command, _ []string) {
		_, err := study.ParseProfile(f.Profile)
		refuse(f.Profile != "" && err != nil, "--%v", err)
		if f.Data != "" {
			f.Data = try.E1(filepath.Abs(f.Data))
			requireFolder("data", f.Data)
		}
		refuse(f.Global && !f.SetupOnly, "--global needs --setup-only: the notebooks need a checkout")
		in := try.E1(installOf(f.Global))
		folder, copies := filepath.Join(in.root, "notebooks"), filepath.Join(in.root, "out", "lab")
		if !f.Originals && !f.SetupOnly {
			try.E(atomicfile.Writable(copies))
		}
		try.E(in.ensure(c.Context(), os.Stderr))
		if f.SetupOnly {
			fmt.Printf("%s is set up\n", cmp.Or(in.root, in.folder))
			return
		}
		f.Port = freePort(f.Port)
		if !f.Originals {
			folder = copies
			copyNotebooks(in.root, copies, os.Stderr)
		}
		hasDesktop := runtime.GOOS == "darwin" || os.Getenv("DISPLAY") != "" || os.Getenv("WAYLAND_DISPLAY") != "" // Or Python starts a text browser here.
		lab := labCommand(c.Context(), in, folder, f.Port, !f.NoBrowser && hasDesktop)
		lab.Env = append(lab.Env, "SEMCON_PROFILE="+f.Profile, "SEMCON_DATA="+f.Data, "SEMCON_OUT="+try.E1(filepath.Abs(cmp.Or(os.Getenv(outVariable), filepath.Join(in.root, "out")))))
		serveLab(c.Context(), in, lab, folder, f.Port)
	}
}

// serveLab runs JupyterLab on a folder until ctx ends, which is the normal end, or until it fails. The token is passed in the environment,
// because every user of a machine can read the arguments of a process.
func serveLab(ctx context.Context, in install, lab *exec.Cmd, folder string, port int) {
	log := try.E1(os.Create(in.dir("lab.log")))
	defer log.Close()
	token := rand.Text()
	lab.Env = append(lab.Env, "JUPYTER_TOKEN="+token)
	lab.Stdout, lab.Stderr = log, log
	try.E(adoptOrphans())
	err := lab.Start()
	fail(err != nil, "cannot start JupyterLab: %w", err)
	running, ended := context.WithCancelCause(ctx)
	exit := make(chan error, 1)
	go func() { exit <- lab.Wait(); ended(errors.New("JupyterLab ended before it answered")) }()
	err = waitForServer(running, port, token)
	if err == nil {
		fmt.Printf("JupyterLab is at http://127.0.0.1:%d%s?token=%s\nThe notebooks are in %s. Ctrl-C stops JupyterLab.\n"+
			"From another machine: ssh -L %[1]d:127.0.0.1:%[1]d HOST\n", port, firstPage, token, folder)
	} else if running.Err() == nil {
		lab.Process.Kill()
	}
	err = cmp.Or(err, <-exit) // It is nil if the server was shut down from its own menu.
	endChildren()
	fail(ctx.Err() == nil && err != nil, "%w; the log is %s", err, log.Name())
}

// labCommand returns the command line of JupyterLab on a folder of notebooks.
func labCommand(ctx context.Context, in install, folder string, port int, browser bool) *exec.Cmd {
	lab := exec.CommandContext(ctx, in.python(), "-m", "jupyterlab",
		"--ServerApp.ip=127.0.0.1",
		"--ServerApp.port="+strconv.Itoa(port),
		"--ServerApp.port_retries=0",
		"--ServerApp.root_dir="+folder,
		"--LabApp.default_url="+firstPage,
		"--ServerApp.open_browser="+map[bool]string{true: "True", false: "False"}[browser])
	lab.Dir = in.root
	lab.Env = in.environ()
	stopGently(lab)
	return lab
}

// The page that JupyterLab shows first explains what is different in a Go notebook.
const (
	readme    = "README.md"
	firstPage = "/lab/tree/" + readme
)

// stopGently makes the context end a program with a signal that lets it end its children, such as kernels. The program gets a process group of
// its own, so that it does not also receive the terminal's Ctrl-C.
func stopGently(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(c)
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = childGrace
}

// waitForServer waits until the server answers, and returns the cause if ctx ends before.
func waitForServer(ctx context.Context, port int, token string) error {
	const patience = 90 * time.Second
	request := try.E1(http.NewRequest(http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/api/status", port), nil))
	request.Header.Set("Authorization", "token "+token)
	_, _, answers := lo.WaitForWithContext(ctx, func(ctx context.Context, _ int) bool {
		response, err := http.DefaultClient.Do(request.WithContext(ctx)) // A server that hangs is given up, too.
		if err == nil {
			response.Body.Close()
		}
		return err == nil && response.StatusCode == http.StatusOK
	}, patience, 100*time.Millisecond)
	if answers {
		return nil
	}
	return cmp.Or(context.Cause(ctx), fmt.Errorf("JupyterLab does not answer on port %d after %s", port, patience))
}

// freePort returns the wanted port if it is free, or for 0 the first free port from 8888.
func freePort(wanted int) int {
	const first, last = 8888, 8987
	for port := cmp.Or(wanted, first); port <= max(wanted, last); port++ {
		if listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			try.E(listener.Close())
			return port
		} else {
			fail(wanted != 0, "--port %d: %w", port, err)
		}
	}
	fail(true, "no free port between %d and %d: choose one with --port", first, last)
	return 0
}

// copiesFile lies beside the copies and records the state of the original that each was copied from.
const copiesFile = ".copies.json"

// copiedPages are the pages that users work on or that these link to, by patterns in the checkout: the folder of their copies, and where their links lead from
// there, since JupyterLab opens nothing outside the folder that it serves. The project's README becomes docs/project.md.
var copiedPages = []struct {
	pattern, folder, name string // Empty names mean the names of the originals.
	links                 *strings.Replacer
}{
	{"notebooks/*.ipynb", "", "", linksOfNotebooks}, {"notebooks/" + readme, "", "", linksOfNotebooks},
	{"docs/*", "docs", "", strings.NewReplacer("](../notebooks/", "](../", "](../"+readme, "](project.md")},
	{readme, "docs", "project.md", strings.NewReplacer("](docs/", "](", "](notebooks/", "](../")},
}

var linksOfNotebooks = strings.NewReplacer("](../docs/", "](docs/", "](../"+readme, "](docs/project.md")

// copyNotebooks updates the copies of the notebooks of a checkout and of the pages that they link to. Users run and edit the copies, and the checkout stays
// unchanged. If an original has changed, it replaces its copy and the outputs in it, unless the user has edited the copy. copyNotebooks prints
// each edited copy that it keeps to w.
func copyNotebooks(root, to string, w io.Writer) {
	record := filepath.Join(to, copiesFile)
	content, _ := os.ReadFile(record)
	var copied map[string]string
	if json.Unmarshal(content, &copied) != nil || copied == nil {
		copied = map[string]string{} // Every copy counts as edited.
	}
	gone := maps.Clone(copied)
	for _, pages := range copiedPages {
		for _, original := range try.E1(filepath.Glob(filepath.Join(root, pages.pattern))) {
			content := []byte(pages.links.Replace(string(try.E1(os.ReadFile(original)))))
			name := filepath.Join(pages.folder, cmp.Or(pages.name, filepath.Base(original)))
			delete(gone, name)
			copy := filepath.Join(to, name)
			state, present := stateIn(name, content), stateOf(copy)
			switch {
			case present == state:
			case present != "" && state == copied[name]:
				continue
			case present != "" && present != copied[name] && pages.folder == "":
				fmt.Fprintf(w, "%s has changed in the project, but you have edited your copy, which is kept; remove %s to get the new version\n", name, copy)
				continue
			default:
				try.E(atomicfile.WriteBytes(copy, content))
			}
			copied[name] = state
		}
	}
	for name, state := range gone {
		delete(copied, name)
		if copy := filepath.Join(to, name); stateOf(copy) == state {
			try.E(os.Remove(copy))
		}
	}
	try.E(atomicfile.WriteBytes(record, try.E1(json.MarshalIndent(copied, "", "  "))))
}

// stateOf returns the state of a file. It is empty if the file does not exist.
func stateOf(path string) string {
	content, err := os.ReadFile(path)
	return lo.Ternary(err != nil, "", stateIn(path, content))
}

// stateIn returns a hash of the content of a file, and for a notebook a hash of its cells without outputs.
func stateIn(path string, content []byte) string {
	var notebook struct {
		Cells []struct {
			Kind   string `json:"cell_type"`
			Source json.RawMessage
		}
	}
	if strings.HasSuffix(path, ".ipynb") && json.Unmarshal(content, &notebook) == nil {
		content = nil
		for _, cell := range notebook.Cells {
			text, lines := string(cell.Source), []string(nil) // A string or a list of lines.
			if json.Unmarshal(cell.Source, &lines) == nil {
				text = strings.Join(lines, "")
			} else {
				json.Unmarshal(cell.Source, &text) // Anything else stays as it is.
			}
			content = fmt.Appendf(content, "%s %q\n", cell.Kind, text)
		}
	}
	return fmt.Sprintf("%x", sha256.Sum256(content))
}
