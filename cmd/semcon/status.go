package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/janpfeifer/must"
	"github.com/semcon/semcon/internal/plural"
	"github.com/semcon/semcon/sccore/experiments"
	"github.com/semcon/semcon/sccore/study"
	"github.com/spf13/cobra"
)

func statusVerb() *cobra.Command {
	c := &cobra.Command{
		Use: "status [EXPERIMENT]", Short: "show how far each cell of an experiment is, whoever runs it",
		Example: "semcon status\nsemcon status ablation --profile full --data data",
	}
	o, format := studyFlags(c), formatFlag(c)
	c.RunE = func(c *cobra.Command, names []string) error {
		if len(names) == 0 {
			for _, flag := range []string{"profile", "only", "set"} { // They are for one experiment.
				if c.Flags().Changed(flag) {
					return usagef("--%s: name an experiment", flag)
				}
			}
			return printOverview(*format, *o)
		}
		experiment, _, err := completeStudy(c, o, names)
		must.M(err)
		o.Warn = func(line string) { fmt.Fprintln(os.Stderr, line) }
		cells := must.M1(statusOf(experiment, *o))
		return printAs(*format, describeStatus(experiment.Name, o.Profile, cells), cells)
	}
	return c
}

// recordedCells are how many of an experiment's cells have records. Both numbers are missing if it needs data, weights or other runs first.
type recordedCells struct {
	Experiment string        `json:"experiment"`
	Profile    study.Profile `json:"profile"`
	Recorded   *int          `json:"recorded"`
	Cells      *int          `json:"cells"`
}

// printOverview prints a line for each experiment: how many cells of each profile have records.
func printOverview(format string, all study.Options) error {
	var overview []recordedCells
	w := tabwriter.NewWriter(textOf(format), 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "recorded runs\t%s\n", strings.Join(profileNames(), "\t"))
	for _, e := range experiments.All() {
		fmt.Fprint(w, e.Name)
		for _, profile := range study.Profiles {
			o := all
			switch o.Profile = profile; {
			case e.GeneratesData:
				o.Data = ""
			case e.DataBySet:
				o.Data = e.DataFor(o)
			}
			done, all, err := e.Recorded(o)
			if err != nil { // It needs data, weights or other runs first.
				overview = append(overview, recordedCells{e.Name, profile, nil, nil})
				fmt.Fprint(w, "\t—")
				continue
			}
			overview = append(overview, recordedCells{e.Name, profile, &done, &all})
			fmt.Fprintf(w, "\t%d of %d", done, all)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w, "—: needs data, weights or the runs of another experiment first; \"semcon status NAME --profile PROFILE\" says which")
	must.M(w.Flush())
	return printAs(format, "", overview)
}

// statusOf tells how far each cell is. It says so if opening the data takes long, as drawing images does.
func statusOf(e study.Experiment, o study.Options) ([]study.CellStatus, error) {
	slow := time.AfterFunc(time.Second, func() { fmt.Fprintf(os.Stderr, "opening the data of %s\n", e.Name) })
	defer slow.Stop()
	cells, err := e.Status(o)
	return cells, choiceError(err)
}

// describeStatus lists cells by state under a line of totals.
func describeStatus(name string, profile study.Profile, cells []study.CellStatus) string {
	slices.SortStableFunc(cells, func(a, b study.CellStatus) int {
		return slices.Index(study.States, a.State) - slices.Index(study.States, b.State)
	})
	text := fmt.Sprintf("%s (%s), %s: %s\n", name, profile, plural.Count(len(cells), "cell"), totals(cells))
	for _, c := range cells {
		text += statusLine(c)
	}
	return text
}

// totals says how many cells are in which state.
func totals(cells []study.CellStatus) string {
	var parts []string
	for _, state := range study.States {
		n := 0
		for _, c := range cells {
			if c.State == state {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
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
