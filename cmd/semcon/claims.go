package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/experiments"
	"github.com/semcon/semcon/sccore/study"
)

var claimsVerb = verb{
	name:    "claims",
	summary: "print the scoreboard of the paper's claims from records",
	example: "semcon claims --profile quick",
	run: func(ctx context.Context, args []string) error {
		flags := newFlags("claims")
		profile := flags.String("profile", string(study.Quick), "`PROFILE` of the runs: smoke, quick or full")
		out := flags.String("out", "out", "`FOLDER` of the records")
		format := flags.String("format", "text", "`FORMAT`: "+strings.Join(figures.ScoreboardFormats, ", "))
		if err := noNames(flags, args); err != nil {
			return err
		}
		wanted, err := parseProfile(*profile)
		if err != nil {
			return err
		}
		if !slices.Contains(figures.ScoreboardFormats, *format) {
			return usagef("--format %q: want one of %s", *format, strings.Join(figures.ScoreboardFormats, ", "))
		}
		if *out != "out" {
			if err := requireFolder("out", *out); err != nil {
				return err
			}
		}
		if err := warnOfBrokenLines(os.Stderr, *out, experiments.All()...); err != nil {
			return err
		}
		var records []study.Record
		for _, e := range experiments.All() {
			some, err := study.Records(study.Folder(*out, e.Name))
			if err != nil {
				return err
			}
			records = append(records, some...)
		}
		if others := otherProfiles(records, wanted); others != nil {
			fmt.Fprintf(os.Stderr, "semcon claims: no records of profile %s in %s; there are some of --profile %s\n", wanted, *out, strings.Join(others, ", --profile "))
		}
		board, err := experiments.Claims(*out, wanted)
		if err != nil {
			return err
		}
		text, err := board.Format(*format)
		if err == nil {
			fmt.Print(text)
		}
		return err
	},
}
