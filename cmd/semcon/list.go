package main

import (
	"context"
	"fmt"

	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/experiments"
	"github.com/semcon/semcon/sccore/study"
)

var listVerb = verb{
	name:    "list",
	summary: "show the engine, the data that are there, and the experiments: what each reproduces, its data, its cost",
	args:    "[EXPERIMENT...]",
	example: "semcon list --data data\nsemcon list pretrain ablation\nsemcon list --long",
	run: func(ctx context.Context, args []string) error {
		flags := newFlags("list")
		data := dataFlag(flags)
		long := flags.Bool("long", false, "show the question, the data and the cost of every profile of each experiment")
		names, err := parse(flags, args)
		if err != nil {
			return err
		}
		if len(names) > 0 {
			for i := range names {
				e, _, err := oneExperiment(names[i : i+1])
				if err != nil {
					return err
				}
				if i > 0 {
					fmt.Println()
				}
				fmt.Print(describeExperiment(e))
			}
			return nil
		}
		fmt.Printf("engine  %s\n\ndata\n", backend.Engine())
		for _, f := range checkData(*data) {
			fmt.Printf("  %-8s %-22s %s\n", f.found(), f.what, f.detail)
		}
		if *long {
			for _, e := range experiments.All() {
				fmt.Printf("\n%s", describeExperiment(e))
			}
			return nil
		}
		fmt.Print("\nexperiments: what each reproduces, and its cost in the quick profile (\"semcon list NAME\" and --long show more)\n")
		for _, e := range experiments.All() {
			fmt.Printf("  %-17s %s; %s\n", e.Name, e.Reproduces, e.Cost[study.Quick])
		}
		return nil
	},
}

// describeExperiment describes an experiment in seven lines.
func describeExperiment(e study.Experiment) string {
	text := fmt.Sprintf("%s\n  %-10s  %s\n  %-10s  %s\n  %-10s  %s\n", e.Name, "asks", e.Title, "reproduces", e.Reproduces, "data", e.Data)
	for _, profile := range []study.Profile{study.Smoke, study.Quick, study.Full} {
		text += fmt.Sprintf("  %-10s  %s\n", profile, e.Cost[profile])
	}
	return text
}

// found returns the state of a dataset: found, missing or broken.
func (f finding) found() string {
	if f.state == stateOK {
		return "found"
	}
	return f.state
}
