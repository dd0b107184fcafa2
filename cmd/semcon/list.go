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
	example: "semcon list --data data",
	run: func(ctx context.Context, args []string) error {
		flags := newFlags("list")
		data := dataFlag(flags)
		if err := noNames(flags, args); err != nil {
			return err
		}
		fmt.Printf("engine  %s\n\ndata\n", backend.Engine())
		for _, f := range checkData(*data) {
			fmt.Printf("  %-8s %-22s %s\n", f.found(), f.what, f.detail)
		}
		for _, e := range experiments.All() {
			fmt.Printf("\n%s\n  %-10s  %s\n  %-10s  %s\n  %-10s  %s\n", e.Name, "asks", e.Title, "reproduces", e.Reproduces, "data", e.Data)
			for _, profile := range []study.Profile{study.Smoke, study.Quick, study.Full} {
				fmt.Printf("  %-10s  %s\n", profile, e.Cost[profile])
			}
		}
		return nil
	},
}

// found returns the state of a dataset: found, missing or broken.
func (f finding) found() string {
	if f.state == stateOK {
		return "found"
	}
	return f.state
}
