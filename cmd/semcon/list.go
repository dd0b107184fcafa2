package main

import (
	"context"
	"fmt"

	"github.com/semcon/semcon/sccore/experiments"
)

var listVerb = verb{
	name:    "list",
	summary: "list the experiments: what each reproduces, its data and its cost",
	example: "semcon list",
	run: func(ctx context.Context, args []string) error {
		if err := noNames(newFlags("list"), args); err != nil {
			return err
		}
		for _, e := range experiments.All() {
			fmt.Printf("%s\n  %s\n  reproduces  %s\n  data        %s\n", e.Name, e.Title, e.Reproduces, e.Data)
			for _, profile := range []experiments.Profile{experiments.Smoke, experiments.Quick, experiments.Full} {
				fmt.Printf("  %-10s  %s\n", profile, e.Cost[profile])
			}
		}
		return nil
	},
}
