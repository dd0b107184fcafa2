package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/semcon/semcon/sccore/study"
)

var statusVerb = verb{
	name:    "status",
	summary: "show how far each cell of an experiment is, whoever runs it",
	args:    "EXPERIMENT",
	example: "semcon status ablation --profile full --data data",
	run: func(ctx context.Context, args []string) error {
		flags := newFlags("status")
		choice := studyFlags(flags)
		names, err := parse(flags, args)
		if err != nil {
			return err
		}
		experiment, _, err := choice.complete(flags, names)
		if err != nil {
			return err
		}
		choice.options.Warn = func(line string) { fmt.Fprintln(os.Stderr, line) }
		cells, err := experiment.Status(choice.options)
		if err != nil {
			return choiceError(err)
		}
		fmt.Print(describeStatus(experiment.Name, choice.options.Profile, cells))
		return nil
	},
}

// states are the states in which cells are listed.
var states = []study.State{study.Running, study.Failed, study.Stopped, study.ToDo, study.Done}

// describeStatus lists cells by state under a line of totals.
func describeStatus(name string, profile study.Profile, cells []study.CellStatus) string {
	var totals, lines []string
	for _, state := range states {
		n := 0
		for _, c := range cells {
			if c.State == state {
				n++
				lines = append(lines, statusLine(c))
			}
		}
		if n > 0 {
			totals = append(totals, fmt.Sprintf("%d %s", n, state))
		}
	}
	return fmt.Sprintf("%s (%s), %d cells: %s\n%s", name, profile, len(cells), strings.Join(totals, ", "), strings.Join(lines, ""))
}

// statusLine describes a cell in one line: its state and name, and for one that is not recorded its last checkpoint, when it last wrote a file, and its error.
func statusLine(c study.CellStatus) string {
	line := fmt.Sprintf("%-8s %s", c.State, c.Name)
	if c.State != study.Done && c.State != study.ToDo {
		if c.Step > 0 {
			line += fmt.Sprintf("  step %d", c.Step)
		}
		line += fmt.Sprintf("  %v ago", c.Age.Round(time.Second))
	}
	if c.Failure != "" {
		line += "  " + c.Failure
	}
	return line + "\n"
}
