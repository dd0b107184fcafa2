package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/janpfeifer/must"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/internal/plural"
	"github.com/semcon/semcon/sccore/progress"
	"github.com/semcon/semcon/sccore/report"
	"github.com/semcon/semcon/sccore/study"
	"github.com/spf13/cobra"
)

func watchVerb() *cobra.Command {
	c := &cobra.Command{
		Use: "watch [EXPERIMENT]", Short: "watch runs while they go on, or look at their curves later, from the files that they leave",
		Example: "semcon watch\nsemcon watch pretrain --out results\nsemcon watch out/train/photos --serve\nsemcon watch --serve --port 8000",
	}
	completeExperiments(c)
	out := c.Flags().String("out", "out", "`FOLDER` of the runs; instead of an experiment, the path of any folder with runs may be named")
	serve := c.Flags().Bool("serve", false, "show a page with the curves, on this machine alone, instead of drawing on the terminal")
	port := c.Flags().Int("port", 0, "`NUMBER` of the page's port; by default a free one")
	c.RunE = func(c *cobra.Command, names []string) error {
		folder := *out
		if info, err := os.Stat(strings.Join(names, "")); len(names) == 1 && err == nil && info.IsDir() {
			folder = names[0]
		} else if len(names) > 0 {
			experiment, _, err := oneExperiment(names)
			must.M(err)
			must.M(requireFolder("out", *out))
			folder = study.Folder(*out, experiment.Name)
		} else {
			must.M(requireFolder("out", *out))
		}
		switch {
		case *serve:
			return serveRuns(c.Context(), folder, *port)
		case !progress.IsTerminal(os.Stdout):
			runs := must.M1(report.Runs(folder))
			fmt.Print(describeRuns(folder, runs))
			for _, r := range runs {
				fmt.Print(statusLine(r.CellStatus))
			}
			return nil
		}
		_, err := tea.NewProgram(watcher{folder: folder}, tea.WithContext(c.Context()), tea.WithoutSignalHandler()).Run()
		if c.Context().Err() != nil { // An interrupt is the normal end.
			return nil
		}
		return err
	}
	return c
}

// every is the time between two looks at the files.
const every = 2 * time.Second

// describeRuns says how many runs of a folder are in which state, and in a line for each running process how far it is.
func describeRuns(folder string, runs []report.Run) string {
	var cells []study.CellStatus
	calls := map[int]string{} // By process.
	for _, r := range runs {
		if cells = append(cells, r.CellStatus); r.State == study.Running && r.Live.Call != "" {
			calls[r.Live.Process] = r.Live.Call + r.Live.MemoryNote() + "\n"
		}
	}
	title := strings.TrimSuffix(fmt.Sprintf("%s, %s: %s", folder, plural.Count(len(runs), "run"), totals(cells)), ": ")
	return title + "\n" + strings.Join(slices.Sorted(maps.Values(calls)), "")
}

// chosenRuns are the places of the named runs; without one of them, that of the first run with curves. There is at least one run.
func chosenRuns(runs []report.Run, names ...string) (places []int) {
	for i, r := range runs {
		if slices.Contains(names, r.Name) {
			places = append(places, i)
		}
	}
	if places == nil {
		places = []int{max(0, slices.IndexFunc(runs, func(r report.Run) bool { return len(r.Files) > 0 }))}
	}
	return places
}

// watcher is the state of the terminal.
type watcher struct {
	folder string
	seen   seen
	chosen string // The name of the run whose curves are shown; empty for the first.
	height int    // Of the terminal, in lines.
}

// seen is what a look at the files has found.
type seen struct {
	runs   []report.Run
	at     int // The place of the chosen run.
	curves []figures.Curves
	err    error
	next   bool // Another look follows.
}

// look looks at the files.
func (w watcher) look(next bool) (s seen) {
	s.next = next
	if s.runs, s.err = report.Runs(w.folder); len(s.runs) > 0 {
		s.at = chosenRuns(s.runs, w.chosen)[0]
		s.curves = report.Curves(s.runs[s.at])
	}
	return s
}

// Init implements [tea.Model].
func (w watcher) Init() tea.Cmd { return func() tea.Msg { return w.look(true) } }

// Update implements [tea.Model].
func (w watcher) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	switch m := message.(type) {
	case seen:
		if w.seen = m; m.next {
			return w, tea.Tick(every, func(time.Time) tea.Msg { return again{} })
		}
	case again:
		return w, func() tea.Msg { return w.look(true) }
	case tea.WindowSizeMsg:
		w.height = m.Height
	case tea.KeyPressMsg:
		move := map[string]int{"up": -1, "k": -1, "down": 1, "j": 1, "pgup": -10, "pgdown": 10}[m.String()]
		switch {
		case m.String() == "q" || m.String() == "esc" || m.String() == "ctrl+c":
			return w, tea.Quit
		case move != 0 && len(w.seen.runs) > 0:
			w.seen.at = min(max(w.seen.at+move, 0), len(w.seen.runs)-1)
			w.chosen = w.seen.runs[w.seen.at].Name
			return w, func() tea.Msg { return w.look(false) }
		}
	}
	return w, nil
}

// again asks for the next look.
type again struct{}

// View implements [tea.Model].
func (w watcher) View() tea.View {
	view := tea.NewView(w.text())
	view.AltScreen = true
	return view
}

// text is the runs around the chosen one, in the upper half of the terminal, and its curves.
func (w watcher) text() string {
	if w.seen.err != nil {
		return w.seen.err.Error()
	}
	text := describeRuns(w.folder, w.seen.runs) + "↑ ↓ choose a run, q ends\n\n"
	room := max(3, w.height/2-strings.Count(text, "\n"))
	first := max(0, min(w.seen.at-room/2, len(w.seen.runs)-room))
	for i, r := range w.seen.runs[first:min(first+room, len(w.seen.runs))] {
		text += map[bool]string{true: "> ", false: "  "}[first+i == w.seen.at] + statusLine(r.CellStatus)
	}
	if len(w.seen.runs) > 0 {
		text += report.CurvesText("nothing yet", w.seen.curves)
	}
	lines := strings.Split(text, "\n")
	return strings.Join(lines[:min(len(lines), max(w.height, 10))], "\n")
}
