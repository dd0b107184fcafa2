package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	_ "embed"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/figures/page"
	"github.com/semcon/semcon/internal/plural"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/experiments"
	"github.com/semcon/semcon/sccore/progress"
	"github.com/semcon/semcon/sccore/report"
	"github.com/semcon/semcon/sccore/study"
	"github.com/spf13/cobra"
)

func statusVerb(c *cobra.Command, flags flagTexts) {
	var f struct{ Format string }
	o := studyFlags(c, flags, &f)
	c.Run = func(c *cobra.Command, names []string) {
		if len(names) == 0 {
			for _, flag := range []string{"profile", "only", "set", "config"} { // They are for one experiment.
				refuse(c.Flags().Changed(flag), "--%s: name an experiment", flag)
			}
			requireFolder("data", o.Data)
			printOverview(f.Format, *o)
			return
		}
		experiment, _ := completeStudy(c, o, names)
		o.Warn = say
		*o = experiment.FromFiles(*o)
		if _, _, others, _ := experiment.Recorded(*o); others > 0 && len(o.Only) == 0 {
			say(plural.Count(others, "recorded run") + " with other settings, seeds or data: " + commandFor("table", experiment.Name, study.Options{Profile: o.Profile, Out: o.Out}))
		}
		cells := statusOf(experiment, *o)
		printAs(f.Format, describeStatus(experiment.Name, o.Profile, cells), cells)
	}
}

// printOverview prints a line for each experiment: how many cells of each profile have records, unless it needs data, weights or other runs first.
func printOverview(format string, all study.Options) {
	var overview []map[string]any
	var rows [][]string
	for _, e := range experiments.All() {
		row := []string{e.Name}
		for _, profile := range study.Profiles {
			o := all
			if o.Profile = profile; e.GeneratesData || e.DataBySet {
				o.Data = e.DataFor(o)
			}
			o = e.FromFiles(o)
			of := map[string]any{"experiment": e.Name, "profile": profile, "recorded": nil, "cells": nil}
			text := "—"
			done, all, others, err := e.Recorded(o)
			if err == nil {
				of["recorded"], of["cells"], text = done, all, fmt.Sprintf("%d of %d", done, all)
			}
			text += lo.Ternary(others > 0, fmt.Sprintf(" +%d", others), "")
			overview, row = append(overview, of), append(row, text)
		}
		rows = append(rows, row)
	}
	table := strings.TrimSuffix(figures.TextGrid(append([]string{"recorded runs"}, profileNames()...), rows).Text(), "\n")
	table += "—: needs data, weights or the runs of another experiment first; \"semcon status NAME --profile PROFILE\" says which\n"
	printAs(format, table+"+: recorded with other settings, seeds or data; \"semcon table NAME --profile PROFILE\" shows them\n", overview)
}

// statusOf tells how far each cell is. It says so if opening the data takes long, as drawing images does.
func statusOf(e study.Experiment, o study.Options) []study.CellStatus {
	slow := time.AfterFunc(time.Second, func() { fmt.Fprintf(os.Stderr, "opening the data of %s\n", e.Name) })
	defer slow.Stop()
	return try.E1(e.Status(o))
}

// describeStatus lists cells by state under a line of totals.
func describeStatus(name string, profile study.Profile, cells []study.CellStatus) string {
	slices.SortStableFunc(cells, func(a, b study.CellStatus) int {
		return slices.Index(study.States, a.State) - slices.Index(study.States, b.State)
	})
	lines := lo.Map(cells, func(c study.CellStatus, _ int) string { return statusLine(c) })
	return fmt.Sprintf("%s (%s), %s: %s\n", name, profile, plural.Count(len(cells), "cell"), totals(cells)) + strings.Join(lines, "")
}

// totals says how many cells are in which state.
func totals(cells []study.CellStatus) string {
	count := lo.CountValuesBy(cells, func(c study.CellStatus) study.State { return c.State })
	parts := lo.FilterMap(study.States, func(s study.State, _ int) (string, bool) { return fmt.Sprintf("%d %s", count[s], s), count[s] > 0 })
	return strings.Join(parts, ", ")
}

// statusLine describes a cell in one line: its state and name, and for one that is not recorded its last checkpoint, when it last wrote a file, and what its process tells or
// its error.
func statusLine(c study.CellStatus) string {
	line := fmt.Sprintf("%-8s %s", c.State, c.Name)
	if c.State != study.Done && c.State != study.ToDo {
		if c.Step > 0 {
			line += fmt.Sprintf("  step %d", c.Step)
		}
		line += fmt.Sprintf("  %v ago", c.Age.Round(time.Second))
	}
	if c.State == study.Running && c.Live != nil {
		line += "  " + c.Live.Summary + c.Live.MemoryNote()
	}
	if c.Failure != "" {
		line += "  " + c.Failure
	}
	return line + "\n"
}

func watchVerb(c *cobra.Command, flags flagTexts) {
	completeExperiments(c)
	var f struct {
		Out   string
		Serve bool
		Port  int
	}
	flags.bind(c, &f)
	c.Run = func(c *cobra.Command, names []string) {
		folder := f.Out
		if len(names) == 1 && datasets.IsFolder(names[0]) {
			folder = names[0]
		} else {
			if len(names) > 0 {
				experiment, _ := oneExperiment(names)
				folder = study.Folder(f.Out, experiment.Name)
			}
			requireFolder("out", f.Out)
		}
		switch {
		case f.Serve:
			serveRuns(c.Context(), folder, f.Port)
			return
		case !progress.IsTerminal(os.Stdout):
			runs := try.E1(report.Runs(folder))
			fmt.Print(describeRuns(folder, runs))
			for _, r := range runs {
				fmt.Print(statusLine(r.CellStatus))
			}
			return
		}
		_, err := tea.NewProgram(watcher{folder: folder}, tea.WithContext(c.Context()), tea.WithoutSignalHandler()).Run()
		if c.Context().Err() == nil { // An interrupt is the normal end.
			try.E(err)
		}
	}
}

// every is the time between two looks at the files.
const every = 2 * time.Second

// describeRuns says how many runs of a folder are in which state, and in a line for each running process how far it is.
func describeRuns(folder string, runs []report.Run) string {
	var cells []study.CellStatus
	calls := map[string]string{} // By process.
	for _, r := range runs {
		if cells = append(cells, r.CellStatus); r.State == study.Running && r.Live.Call != "" {
			calls[cmp.Or(r.Live.Process, r.Name)] = r.Live.Call + r.Live.MemoryNote() + "\n"
		}
	}
	title := strings.TrimSuffix(fmt.Sprintf("%s, %s: %s", folder, plural.Count(len(runs), "run"), totals(cells)), ": ")
	return title + "\n" + strings.Join(slices.Sorted(maps.Values(calls)), "")
}

// chosenRuns are the places of the named runs. If none is found, it is the first run with curves.
func chosenRuns(runs []report.Run, names ...string) (places []int) {
	places = lo.FilterMap(runs, func(r report.Run, i int) (int, bool) { return i, slices.Contains(names, r.Name) })
	if len(places) == 0 {
		return []int{max(0, slices.IndexFunc(runs, func(r report.Run) bool { return len(r.Files) > 0 }))}
	}
	return places
}

// watcher is the state of the terminal.
type watcher struct {
	folder string
	seen
	chosen string // The name of the run whose curves are shown; empty for the first with curves.
	at     int    // Its place.
	curves []figures.Curves
	height int // Of the terminal, in lines.
}

// seen is what a look at the files has found.
type seen struct {
	runs []report.Run
	err  error
}

func (w watcher) look(time.Time) tea.Msg {
	runs, err := report.Runs(w.folder)
	return seen{runs, err}
}

// choose reads the curves of the chosen run.
func (w watcher) choose() watcher {
	if w.curves = nil; len(w.runs) > 0 {
		w.at = chosenRuns(w.runs, w.chosen)[0]
		w.curves = report.Curves(w.runs[w.at])
	}
	return w
}

// Init implements [tea.Model].
func (w watcher) Init() tea.Cmd { return func() tea.Msg { return w.look(time.Now()) } }

// Update implements [tea.Model].
func (w watcher) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	switch m := message.(type) {
	case seen:
		w.seen = m
		return w.choose(), tea.Tick(every, w.look)
	case tea.WindowSizeMsg:
		w.height = m.Height
	case tea.KeyPressMsg:
		move := map[string]int{"up": -1, "k": -1, "down": 1, "j": 1, "pgup": -10, "pgdown": 10}[m.String()]
		switch {
		case m.String() == "q" || m.String() == "esc" || m.String() == "ctrl+c":
			return w, tea.Quit
		case move != 0 && len(w.runs) > 0:
			w.chosen = w.runs[min(max(w.at+move, 0), len(w.runs)-1)].Name
			return w.choose(), nil
		}
	}
	return w, nil
}

// View implements [tea.Model].
func (w watcher) View() tea.View {
	view := tea.NewView(w.text())
	view.AltScreen = true
	return view
}

// text is the runs around the chosen one, in the upper half of the terminal, and its curves.
func (w watcher) text() string {
	if w.err != nil {
		return w.err.Error()
	}
	text := describeRuns(w.folder, w.runs) + "↑ ↓ choose a run, q ends\n\n"
	room := max(3, w.height/2-strings.Count(text, "\n"))
	first := max(0, min(w.at-room/2, len(w.runs)-room))
	for i, r := range w.runs[first:min(first+room, len(w.runs))] {
		text += map[bool]string{true: "> ", false: "  "}[first+i == w.at] + statusLine(r.CellStatus)
	}
	if len(w.runs) > 0 {
		text += report.CurvesText("nothing yet", w.curves)
	}
	lines := strings.Split(text, "\n")
	return strings.Join(lines[:min(len(lines), max(w.height, 10))], "\n")
}

//go:embed watch.html
var watchText string

var watchTemplate = page.Template(watchText)

// serveRuns serves the page on this machine alone until ctx ends, which is the normal end.
func serveRuns(ctx context.Context, folder string, port int) {
	listener, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
	fail(err != nil, "--port %d: %w", port, err)
	token := rand.Text()
	server := &http.Server{Handler: runsPage{folder, token}, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { server.Close() })
	_, chosen, _ := net.SplitHostPort(listener.Addr().String()) // It is an address.
	fmt.Printf("the runs of %s are at http://127.0.0.1:%s/?token=%s\nCtrl-C ends it. From another machine: ssh -L %[2]s:127.0.0.1:%[2]s HOST\n", folder, chosen, token)
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		try.E(err)
	}
}

// runsPage answers requests that have the token: for the page, for what it shows as it is now, and for a row of curves.
type runsPage struct{ folder, token string }

// shownRun is a run on the page.
type shownRun struct {
	report.Run
	Letter string // Of its series in the curves; empty if they do not show it.
}

// ServeHTTP implements [http.Handler].
func (p runsPage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query, header := r.URL.Query(), w.Header()
	header.Set("Content-Security-Policy", "default-src 'none'; img-src 'self' data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; form-action 'self'")
	header.Set("Referrer-Policy", "no-referrer")
	if subtle.ConstantTimeCompare([]byte(query.Get("token")), []byte(p.token)) == 0 {
		http.Error(w, "the address needs the token that semcon watch has printed", http.StatusForbidden)
		return
	}
	runs, err := report.Runs(p.folder)
	shown := struct {
		Folder, Token, About string
		Runs                 []shownRun
		Rows                 []string // Addresses of pictures.
	}{Folder: p.folder, Token: p.token, About: describeRuns(p.folder, runs)}
	var drawn []report.Run
	chosen := chosenRuns(runs, query["run"]...)
	for i, run := range runs {
		shown.Runs = append(shown.Runs, shownRun{Run: run})
		if letter := slices.Index(chosen, i); letter >= 0 {
			drawn, shown.Runs[i].Letter = append(drawn, run), string(rune('A'+letter))
		}
	}
	const beside = 3 // Curves in a row.
	rows := slices.Collect(slices.Chunk(report.Curves(drawn...), beside))
	part := map[string]string{"/": "page", "/state": "state"}[r.URL.Path]
	switch at, none := strconv.Atoi(query.Get("row")); {
	case err != nil:
	case part != "":
		for i, row := range rows {
			query.Set("row", strconv.Itoa(i))
			query.Set("of", fmt.Sprintf("%08x", crc32.ChecksumIEEE(fmt.Append(nil, row)))) // The address changes with the curves.
			shown.Rows = append(shown.Rows, "curves.svg?"+query.Encode())
		}
		err = watchTemplate.ExecuteTemplate(w, part, shown)
	case r.URL.Path == "/curves.svg" && none == nil && at >= 0 && at < len(rows):
		var svg []byte
		if svg, _, err = figures.Render(figures.CurvesRow(rows[at])); err == nil {
			header.Set("Content-Type", "image/svg+xml")
			header.Set("Cache-Control", "max-age=3600")
			w.Write(svg)
		}
	default:
		http.NotFound(w, r)
	}
	if err != nil {
		http.Error(w, oneLine(err), http.StatusInternalServerError)
	}
}
