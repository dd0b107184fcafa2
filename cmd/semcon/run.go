package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/experiments"
	"github.com/semcon/semcon/sccore/progress"
	"github.com/semcon/semcon/sccore/study"
)

var runVerb = verb{
	name:    "run",
	summary: "run an experiment, or the rest of it",
	args:    "EXPERIMENT",
	example: "semcon run effect-aug --profile quick --data data\nsemcon run effect-aug --data data --only 'cifar10/simclr/*/seed0' --set simclr.rate=0.1",
	kept:    "checkpoint kept",
	run: func(ctx context.Context, args []string) error {
		flags := newFlags("run")
		profile := flags.String("profile", string(study.Quick), "`PROFILE` of the run: smoke, quick or full")
		// A run first prints its engine. A refused run prints only the reason.
		announce := sync.OnceFunc(func() { announceEngine(os.Stderr) })
		options := study.Options{
			Bar: func(title string, total int) progress.Bar {
				announce()
				return progress.New(os.Stderr, title, total)
			},
			Warn: func(line string) {
				announce()
				fmt.Fprintln(os.Stderr, line)
			},
		}
		data := dataFlag(flags)
		flags.StringVar(&options.Out, "out", "out", "`FOLDER` for records and checkpoints")
		flags.IntVar(&options.Seeds, "seeds", 0, "`NUMBER` of seeds instead of the profile's own")
		flags.IntVar(&options.Parallel, "parallel", 0, "`NUMBER` of runs at the same time; by default 1 in full, and one per core in quick and smoke")
		flags.DurationVar(&options.CheckpointEvery, "checkpoint-every", 20*time.Second, "`TIME` between checkpoints: the most that a kill loses")
		flags.Func("set", "change the configuration: `KEY=VALUE`; may be repeated", appendTo(&options.Set))
		flags.Func("only", "run only the cells that match `PATTERN`, such as dataset/method/row/seed; may be repeated", appendTo(&options.Only))
		names, err := parse(flags, args)
		if err != nil {
			return err
		}
		options.Data = *data
		experiment, table, err := oneExperiment(names)
		if err != nil {
			return err
		}
		if options.Profile, err = parseProfile(*profile); err != nil {
			return err
		}
		switch {
		case options.CheckpointEvery < 0:
			return usagef("--checkpoint-every %v is negative", options.CheckpointEvery)
		case options.Parallel < 0:
			return usagef("--parallel %d is negative", options.Parallel)
		case options.Parallel == 0 && options.Profile == study.Full:
			options.Parallel = 1 // A step of full size fills the device.
		case options.Parallel == 0:
			options.Parallel = runtime.NumCPU() // A small step fills only one core.
		}
		dataGiven := false
		flags.Visit(func(f *flag.Flag) {
			dataGiven = dataGiven || f.Name == "data"
			if f.Name == "seeds" && options.Seeds < 1 {
				err = usagef("--seeds %d is not positive", options.Seeds)
			}
		})
		if err != nil {
			return err
		}
		if experiment.GeneratesData && !dataGiven {
			options.Data = "" // $SEMCON_DATA is for others; --data is refused.
		}
		if options.Data != "" && !experiment.GeneratesData {
			if err := requireFolder("data", options.Data); err != nil {
				return err
			}
		}
		if err := requireWritable("out", options.Out); err != nil {
			return err
		}
		b, err := backend.Open()
		if err != nil {
			return err
		}
		err = experiment.Run(ctx, b, options)
		if wrong := (study.BadOption{}); errors.As(err, &wrong) {
			return usagef("%v", wrong)
		}
		if err == nil {
			fmt.Fprintf(os.Stderr, "show the table: %s\n", commandFor("table", cmp.Or(table, experiment.Name), options.Profile, options.Out))
		}
		return err
	},
}

// commandFor returns the command that runs an experiment or shows its results, with the flags that differ from their defaults.
func commandFor(verb, name string, profile study.Profile, out string) string {
	words := []string{"semcon", verb, name}
	if profile != study.Quick {
		words = append(words, "--profile", string(profile))
	}
	if out != "out" {
		words = append(words, "--out", out)
	}
	return strings.Join(words, " ")
}

// appendTo returns a flag function that collects values.
func appendTo(list *[]string) func(string) error {
	return func(value string) error {
		*list = append(*list, value)
		return nil
	}
}

// oneExperiment finds the experiment with the given name, or the one with a table of that name in the paper, which it then returns as table.
func oneExperiment(names []string) (e study.Experiment, table string, err error) {
	if len(names) != 1 {
		return e, "", usagef("want the name of one experiment, got %s (\"semcon list\" names them)", listed(names))
	}
	if e, table, err = experiments.Find(names[0]); err != nil {
		err = usagef("%v", err)
	}
	return e, table, err
}
