package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/semcon/semcon/sccore/report"
	"github.com/semcon/semcon/sccore/study"
)

var compareVerb = verb{
	name:    "compare",
	summary: "compare two runs: settings that differ, curves, and differences of their numbers paired by seed",
	args:    "RUN RUN",
	example: "semcon compare ablation/line2 ablation/line5\nsemcon compare out/pretrain other/pretrain --to compared.html\n" +
		"semcon compare noise-tolerance/cotap/flipped0.2@3f2a noise-tolerance/cotap/flipped0.2@91bc",
	run: func(_ context.Context, args []string) error {
		flags := newFlags("compare")
		profile := flags.String("profile", string(study.Quick), "`PROFILE` of the runs: smoke, quick or full")
		out := flags.String("out", "out", "`FOLDER` of the records of runs that are named as EXPERIMENT/CELL; a run may also be the path of an experiment's folder")
		to := flags.String("to", "", "`FILE` of a page with the comparison and its curves; .html")
		runs, err := parse(flags, args)
		if err != nil {
			return err
		}
		if len(runs) != 2 {
			return usagef("want two runs, such as ablation/line2, got %s", listed(runs))
		}
		wanted, err := parseProfile(*profile)
		if err != nil {
			return err
		}
		if *to != "" {
			if !strings.EqualFold(filepath.Ext(*to), ".html") {
				return usagef("--to %s: want a file that ends with .html", *to)
			}
			if err := requireWritableFile("to", *to); err != nil {
				return err
			}
		}
		var selected [2]report.Selection
		for i, run := range runs {
			if selected[i], err = report.Select(*out, run, wanted); err != nil {
				return err
			}
		}
		compared, err := report.Compare(selected[0], selected[1])
		if err != nil {
			return err
		}
		if *to == "" {
			fmt.Print(compared.Text())
			return nil
		}
		if err := compared.Write(*to); err != nil {
			return err
		}
		fmt.Printf("wrote %s\n", *to)
		return nil
	},
}
