package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/semcon/semcon/cmd/semcon/internal/setup"
	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/study"
)

var labVerb = verb{
	name:    "lab",
	summary: "set everything up under .semcon/ and open JupyterLab on copies of the notebooks in out/lab/",
	example: "semcon lab --profile smoke\nsemcon lab --port 9000 --no-browser\nsemcon lab --setup-only --global",
	grace:   childGrace + grace,
	run:     runLab,
}

func runLab(ctx context.Context, args []string) error {
	flags := newFlags("lab")
	port := flags.Int("port", 0, "`PORT` of 127.0.0.1 to listen on (default: the first free one from 8888)")
	noBrowser := flags.Bool("no-browser", false, "print the address and open no browser")
	profile := flags.String("profile", os.Getenv("SEMCON_PROFILE"), "`PROFILE` of the experiments in the notebooks: smoke, quick or full; by default $SEMCON_PROFILE, or else quick")
	data := flags.String("data", os.Getenv("SEMCON_DATA"), "`FOLDER` of the datasets for the notebooks, by default $SEMCON_DATA; without either they draw synthetic images")
	originals := flags.Bool("originals", false, "open the project's own notebooks, not copies in out/lab/")
	setupOnly := flags.Bool("setup-only", false, "set up and exit")
	global := flags.Bool("global", false, "with --setup-only: install the XLA plugin into your cache folder, for binaries outside a checkout")
	if err := noNames(flags, args); err != nil {
		return err
	}
	if *port < 0 || *port > 65535 {
		return usagef("--port %d is not between 1 and 65535", *port)
	}
	if *profile != "" {
		if _, err := study.ParseProfile(*profile); err != nil {
			return usagef("--%v", err)
		}
	}
	if *data != "" {
		folder, err := filepath.Abs(*data)
		if err == nil {
			err = requireFolder("data", folder)
		}
		if err != nil {
			return err
		}
		*data = folder
	}
	if *global && !*setupOnly {
		return usagef("--global needs --setup-only: the notebooks need a checkout")
	}
	find := checkoutInstall
	if *global {
		find = setup.Global
	}
	in, err := find()
	if err != nil {
		return err
	}
	copies := filepath.Join(in.Root(), "out", "lab")
	if !*originals && !*setupOnly {
		if err := atomicfile.Writable(copies); err != nil {
			return err
		}
	}
	if err := in.Ensure(ctx, os.Stderr); err != nil {
		return err
	}
	if *setupOnly {
		fmt.Printf("%s is set up\n", cmp.Or(in.Root(), in.Dir()))
		return nil
	}
	if *port, err = freePort(*port); err != nil {
		return err
	}
	folder := filepath.Join(in.Root(), "notebooks")
	if !*originals {
		if folder, err = copyNotebooks(folder, copies, os.Stderr); err != nil {
			return err
		}
		if err := copyPages(in.Root(), copies); err != nil {
			return err
		}
	}
	lab := labCommand(ctx, in, folder, *port, !*noBrowser && hasDesktop())
	lab.Env = append(lab.Env, "SEMCON_PROFILE="+*profile, "SEMCON_DATA="+*data)
	return serveLab(ctx, in, lab, folder, *port)
}

// checkoutInstall returns the set-up of the checkout that this process belongs to.
func checkoutInstall() (setup.Install, error) {
	root := backend.CheckoutRoot()
	if root == "" {
		return setup.Install{}, errors.New("not in a checkout of the project: run this inside a clone of the repository")
	}
	return setup.At(root)
}

// serveLab runs JupyterLab on a folder until ctx ends, which is the normal end, or until it fails. The token is passed in the environment,
// because every user of a machine can read the arguments of a process.
func serveLab(ctx context.Context, in setup.Install, lab *exec.Cmd, folder string, port int) error {
	logFile := in.Dir("lab.log")
	log, err := os.Create(logFile)
	if err != nil {
		return err
	}
	defer log.Close()
	token := rand.Text()
	lab.Env = append(lab.Env, "JUPYTER_TOKEN="+token)
	lab.Stdout, lab.Stderr = log, log
	if err := setup.AdoptOrphans(); err != nil {
		return err
	}
	if err := lab.Start(); err != nil {
		return fmt.Errorf("cannot start JupyterLab: %w", err)
	}
	var exit error
	ended := make(chan struct{})
	go func() { exit = lab.Wait(); close(ended) }()

	opened := make(chan error, 1)
	go func() { opened <- waitForServer(ctx, port, token) }()
	select {
	case err = <-opened:
	case <-ended:
		err = errors.New("JupyterLab ended immediately")
	}
	if err == nil {
		fmt.Printf("JupyterLab is at http://127.0.0.1:%d%s?token=%s\nThe notebooks are in %s. Ctrl-C stops JupyterLab.\n"+
			"From another machine: ssh -L %[1]d:127.0.0.1:%[1]d HOST\n", port, firstPage(folder), token, folder)
	} else if ctx.Err() == nil {
		lab.Process.Kill()
	}
	<-ended
	setup.EndChildren()
	switch {
	case ctx.Err() != nil:
		return nil
	case err == nil:
		err = exit // nil if it was shut down from its own menu.
	}
	if err != nil {
		err = fmt.Errorf("%w; the log is %s", err, logFile)
	}
	return err
}

// labCommand returns the command line of JupyterLab on a folder of notebooks.
func labCommand(ctx context.Context, in setup.Install, folder string, port int, browser bool) *exec.Cmd {
	lab := exec.CommandContext(ctx, in.Python(), "-m", "jupyterlab",
		"--ServerApp.ip=127.0.0.1",
		"--ServerApp.port="+strconv.Itoa(port),
		"--ServerApp.port_retries=0",
		"--ServerApp.root_dir="+folder,
		"--LabApp.default_url="+firstPage(folder),
		"--ServerApp.open_browser="+map[bool]string{true: "True", false: "False"}[browser])
	lab.Dir = in.Root()
	lab.Env = in.Environ()
	stopGently(lab)
	return lab
}

// firstPage returns the page that JupyterLab shows first: the README, which explains what is different in a Go notebook, if the folder has it.
func firstPage(folder string) string {
	if _, err := os.Stat(filepath.Join(folder, readme)); err != nil {
		return "/lab"
	}
	return "/lab/tree/" + readme
}

// childGrace is how long a program may take to end its child processes.
const childGrace = 15 * time.Second

// stopGently makes the context end a program with a signal that lets it end its children, such as kernels. The program gets a process group of
// its own, so that it does not also receive the terminal's Ctrl-C.
func stopGently(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	setup.DieWithParent(c)
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = childGrace
}

// waitForServer waits until the server answers.
func waitForServer(ctx context.Context, port int, token string) error {
	const patience = 90 * time.Second
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/api/status", port), nil)
		if err != nil {
			return err
		}
		request.Header.Set("Authorization", "token "+token)
		if response, err := http.DefaultClient.Do(request); err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return fmt.Errorf("JupyterLab does not answer on port %d after %s", port, patience)
}

// freePort returns the wanted port if it is free, or for 0 the first free port from 8888.
func freePort(wanted int) (int, error) {
	first, last := wanted, wanted
	if wanted == 0 {
		first, last = 8888, 8987
	}
	for port := first; port <= last; port++ {
		if listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return port, listener.Close()
		} else if wanted != 0 {
			return 0, fmt.Errorf("--port %d: %w", port, err)
		}
	}
	return 0, fmt.Errorf("no free port between %d and %d: choose one with --port", first, last)
}

// hasDesktop reports whether a browser can show a window. Without a desktop, Python would start a text browser in this terminal.
func hasDesktop() bool {
	return runtime.GOOS == "darwin" || os.Getenv("DISPLAY") != "" || os.Getenv("WAYLAND_DISPLAY") != ""
}
