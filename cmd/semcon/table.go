package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/study"
)

var tableVerb = verb{
	name:    "table",
	summary: "print an experiment's tables from its records: paper, ours, difference",
	args:    "EXPERIMENT",
	example: "semcon table effect-aug --format md\nsemcon table video_seg",
	run: func(ctx context.Context, args []string) error {
		flags := newFlags("table")
		profile := flags.String("profile", string(study.Quick), "`PROFILE` of the runs shown: smoke, quick or full")
		out := flags.String("out", "out", "`FOLDER` of the records")
		format := flags.String("format", "md", "`FORMAT`: "+strings.Join(figures.Formats, ", "))
		names, err := parse(flags, args)
		if err != nil {
			return err
		}
		experiment, label, err := oneExperiment(names)
		if err != nil {
			return err
		}
		wanted, err := parseProfile(*profile)
		if err != nil {
			return err
		}
		if !slices.Contains(figures.Formats, *format) {
			return usagef("--format %q: want one of %s", *format, strings.Join(figures.Formats, ", "))
		}
		if *out != "out" {
			if err := requireFolder("out", *out); err != nil {
				return err
			}
		}
		if err := warnOfBrokenLines(os.Stderr, *out, experiment); err != nil {
			return err
		}
		folder := filepath.Join(*out, experiment.Name)
		records, err := study.Records(folder)
		if err != nil {
			return err
		}
		if others := otherProfiles(records, wanted); len(records) == 0 {
			fmt.Fprintf(os.Stderr, "semcon table: no records in %s; \"%s\" makes them\n", folder, commandFor("run", experiment.Name, wanted, *out))
		} else if others != nil {
			fmt.Fprintf(os.Stderr, "semcon table: no records of profile %s in %s; there are some of --profile %s\n", wanted, folder, strings.Join(others, ", --profile "))
		}
		tables, err := experiment.Tables(records, wanted)
		if err != nil {
			return err
		}
		shown := namedTables(tables, label)
		if measured := figures.Measured(shown); label == "" && len(measured) < len(shown) {
			fmt.Fprintf(os.Stderr, "semcon table: left out, as they show the paper's numbers alone: %s\n", paperAlone(shown))
			shown = measured
		} else if label != "" && len(figures.Measured(tables)) < len(tables) && paperAlone(shown) != "" {
			fmt.Fprintf(os.Stderr, "semcon table: no run on the paper's data; \"%s\" shows the others\n", commandFor("table", experiment.Name, wanted, *out))
		}
		for i, table := range shown {
			text, err := table.Format(*format)
			if err != nil {
				return err
			}
			switch {
			case i > 0 && *format == "csv": // All tables share one header.
				_, text, _ = strings.Cut(text, "\n")
			case i > 0:
				fmt.Println()
			}
			fmt.Print(text)
		}
		return nil
	},
}

// namedTables returns the tables that show the paper's table or figure with the label. They are all tables if no title has the label: the paper's figures of
// noise-rate and over-dispersion have no numbers, and their tables have titles of their own.
func namedTables(tables []figures.Table, label string) (named []figures.Table) {
	for _, table := range tables {
		title := strings.TrimPrefix(strings.TrimPrefix(table.Title, "Tab. "), "Fig. ")
		if rest, ok := strings.CutPrefix(title, label); label == "" || ok && (rest == "" || strings.ContainsAny(rest[:1], " ,")) {
			named = append(named, table)
		}
	}
	if len(named) == 0 {
		return tables
	}
	return named
}

// paperAlone lists the tables that show the paper's numbers alone, by their names in the paper.
func paperAlone(tables []figures.Table) string {
	var names []string
	for _, table := range tables {
		if table.PaperAlone() {
			names = append(names, strings.TrimPrefix(table.Title, "Tab. "))
		}
	}
	return strings.Join(names, ", ")
}

// otherProfiles returns the sorted profiles of the records if none of them has the wanted profile.
func otherProfiles(records []study.Record, wanted study.Profile) (others []string) {
	for _, r := range records {
		if r.Profile == wanted {
			return nil
		}
		if !slices.Contains(others, string(r.Profile)) {
			others = append(others, string(r.Profile))
		}
	}
	slices.Sort(others)
	return others
}
