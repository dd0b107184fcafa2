package main

import (
	"context"
	"fmt"
	"os"

	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/experiments"
)

var listVerb = verb{
	name:    "list",
	summary: "list the experiments: what each reproduces, its data and whether it is there, its cost",
	example: "semcon list --data data",
	run: func(ctx context.Context, args []string) error {
		flags := newFlags("list")
		data := flags.String("data", os.Getenv("SEMCON_DATA"), "`FOLDER` of the datasets")
		if err := noNames(flags, args); err != nil {
			return err
		}
		fmt.Printf("engine\n  %s\n", backend.Engine())
		for _, e := range experiments.All() {
			fmt.Printf("%s\n  %s\n  reproduces  %s\n  data        %s\n", e.Name, e.Title, e.Reproduces, e.Data)
			for _, profile := range []experiments.Profile{experiments.Smoke, experiments.Quick, experiments.Full} {
				fmt.Printf("  %-10s  %s\n", profile, e.Cost[profile])
			}
		}
		fmt.Println("data")
		for _, f := range checkData(*data) {
			fmt.Printf("  %s: %s, %s\n", f.what, f.state, f.detail)
		}
		return nil
	},
}
