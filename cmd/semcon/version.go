package main

import (
	"cmp"
	"context"
	"fmt"
	"runtime"

	"github.com/semcon/semcon/sccore/backend"
)

var versionVerb = verb{
	name:    "version",
	summary: "print the commit of this program, the engine, and the versions of what computes",
	example: "semcon version",
	run: func(_ context.Context, args []string) error {
		if err := noNames(newFlags("version"), args); err != nil {
			return err
		}
		versions := backend.Versions()
		fmt.Printf("%-8s %s\n", "semcon", cmp.Or(versions["semcon"], "unknown commit"))
		fmt.Printf("%-8s %s\n", "engine", backend.Engine())
		for _, name := range []string{"gomlx", "compute", "go-xla"} {
			fmt.Printf("%-8s %s\n", name, cmp.Or(versions[name], "not in this program"))
		}
		fmt.Printf("%-8s %s, %s/%s\n", "go", versions["go"], runtime.GOOS, runtime.GOARCH)
		return nil
	},
}
