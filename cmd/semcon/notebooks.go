package main

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/semcon/semcon/cmd/semcon/internal/setup"
	"github.com/semcon/semcon/sccore/progress"
)

var notebooksVerb = verb{
	name:    "notebooks",
	summary: "execute notebooks headless; HTML and executed copies go to out/notebooks/",
	args:    "[NOTEBOOK...]",
	example: "semcon notebooks 01_augmentation_study --profile smoke",
	kept:    "records and checkpoints are kept",
	grace:   childGrace + grace,
	run:     runNotebooks,
}

//go:embed execute_notebook.py
var executeScript string

func runNotebooks(ctx context.Context, args []string) error {
	flags := newFlags("notebooks")
	profile := profileFlag(flags, "of the experiments")
	out := flags.String("out", "out", "`FOLDER` of the results")
	data := flags.String("data", os.Getenv("SEMCON_DATA"), "`FOLDER` of the datasets, by default $SEMCON_DATA; without either the notebooks draw synthetic images")
	timeout := flags.Duration("timeout", 0, "`TIME` limit of one cell, such as 90s or 2h; 0 for none")
	update := flags.Bool("update", false, "also write the outputs into the notebooks themselves")
	names, err := parse(flags, args)
	if err != nil {
		return err
	}
	if *timeout < 0 {
		return usagef("--timeout %s is negative", *timeout)
	}
	if err := requireWritable("out", *out); err != nil {
		return err
	}
	in, err := checkoutInstall()
	if err != nil {
		return err
	}
	files, err := notebookFiles(filepath.Join(in.Root(), "notebooks"), names)
	if err != nil {
		return err
	}
	env, err := cellEnv(string(*profile), *out, *data)
	if err != nil {
		return err
	}
	if err := in.Ensure(ctx, os.Stderr); err != nil {
		return err
	}
	for _, file := range files {
		e := execution{
			install: in,
			source:  file,
			folder:  filepath.Join(*out, "notebooks"),
			env:     env,
			timeout: *timeout,
		}
		if err := e.run(ctx); err != nil {
			return err
		}
		if *update {
			if err := updateNotebook(file, e.result(".ipynb"), in.Root()); err != nil {
				return err
			}
		}
		fmt.Println(e.result(".html"))
	}
	return nil
}

// cellEnv returns the environment that passes the command line to the cells, which read it through package nb. Cells run in the folder of the
// notebook, so paths must be absolute.
func cellEnv(profile, out, data string) ([]string, error) {
	env := []string{"SEMCON_PROFILE=" + profile}
	for _, folder := range []struct{ name, path string }{{"SEMCON_OUT", out}, {"SEMCON_DATA", data}} {
		if folder.path == "" {
			continue
		}
		path, err := filepath.Abs(folder.path)
		if err != nil {
			return nil, err
		}
		env = append(env, folder.name+"="+path)
	}
	if data != "" {
		if err := requireFolder("data", data); err != nil {
			return nil, err
		}
	}
	return env, nil
}

// notebookFiles finds the named notebooks: with or without .ipynb, in the folder or at a path. Without names it returns all notebooks in the
// folder.
func notebookFiles(folder string, names []string) ([]string, error) {
	if len(names) == 0 {
		files, err := filepath.Glob(filepath.Join(folder, "*.ipynb"))
		if err == nil && len(files) == 0 {
			err = fmt.Errorf("no notebook in %s", folder)
		}
		return files, err
	}
	var files []string
	for _, name := range names {
		if !strings.HasSuffix(name, ".ipynb") {
			name += ".ipynb"
		}
		inFolder := filepath.Join(folder, name)
		if _, err := os.Stat(inFolder); err == nil {
			files = append(files, inFolder)
		} else if _, err := os.Stat(name); err == nil {
			files = append(files, name)
		} else {
			return nil, usagef("no notebook %s in %s", name, folder)
		}
	}
	return files, nil
}

// execution is the execution of one notebook.
type execution struct {
	install setup.Install
	source  string
	folder  string // Folder of the results.
	env     []string
	timeout time.Duration
}

func (e execution) name() string { return strings.TrimSuffix(filepath.Base(e.source), ".ipynb") }

// result returns the path of a result: .ipynb, .html or .log.
func (e execution) result(extension string) string {
	return filepath.Join(e.folder, e.name()+extension)
}

// executionReport is a line of execute_notebook.py.
type executionReport struct {
	Total  int
	Start  int
	Done   int
	Failed *int
	Error  string
	Stderr string
}

func (e execution) run(ctx context.Context) error {
	if err := os.MkdirAll(e.folder, 0o755); err != nil {
		return err
	}
	log, err := os.Create(e.result(".log")) // For the kernel's own messages.
	if err != nil {
		return err
	}
	defer log.Close()
	python := exec.CommandContext(ctx, e.install.Python(), "-c", executeScript,
		e.source, e.result(".ipynb"), e.result(".html"), strconv.Itoa(int(e.timeout.Seconds()+0.5)), setup.HeadlessKernelName)
	python.Env = append(e.install.Environ(), e.env...)
	python.Stderr = log
	stopGently(python)
	stdout, err := python.StdoutPipe()
	if err != nil {
		return err
	}
	if err := python.Start(); err != nil {
		return err
	}
	failure := e.follow(bufio.NewScanner(stdout))
	err = python.Wait()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case failure != nil:
		return failure
	case err != nil:
		return fmt.Errorf("%s was not executed (%w); the log is %s", e.source, err, log.Name())
	}
	return nil
}

// follow shows the lines in a bar and returns the failure that they name.
func (e execution) follow(lines *bufio.Scanner) (failure error) {
	lines.Buffer(nil, 64<<20) // A cell may print a lot before it fails.
	var bar progress.Bar = progress.Discard
	defer func() { bar.Close() }()
	done := 0
	for lines.Scan() {
		var r executionReport
		if json.Unmarshal(lines.Bytes(), &r) != nil {
			continue // A message of some library.
		}
		switch {
		case r.Total > 0:
			bar = progress.New(os.Stderr, e.name(), r.Total)
			bar.Set(0, "starting kernel")
		case r.Start > 0:
			bar.Set(done, fmt.Sprintf("running cell %d", r.Start))
		case r.Done > 0:
			done = r.Done
			bar.Set(done, "")
		case r.Failed != nil:
			failure = fmt.Errorf("%s, cell %d: %s (see %s)", filepath.Base(e.source), *r.Failed, cellError(r.Error, r.Stderr), e.result(".html"))
		}
	}
	return failure
}

// lineOfCell matches the kernel's mark for a line of a cell in a stack trace.
var lineOfCell = regexp.MustCompile(`\[\[ Cell (?:\[\d+\] )?Line \d+ \]\]`)

// cellError finds the line that explains the failure of a cell. The message of the compiler is in the error itself. A cell that compiled but
// failed prints the reason and the line on standard error; the error then holds only the exit status.
func cellError(message, stderr string) string {
	where := ""
	if mark := lineOfCell.FindString(stderr); mark != "" {
		where = ", " + strings.Trim(mark, "[ ]")
	}
	for _, clue := range []struct{ text, mark, where string }{{message, ".go:", ""}, {stderr, "panic: ", where}, {stderr, "error: ", where}} {
		for line := range strings.Lines(clue.text) {
			if strings.Contains(line, clue.mark) {
				return strings.TrimSpace(line) + clue.where
			}
		}
	}
	return oneLine(errors.New(message))
}
