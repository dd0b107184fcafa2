package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
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
	summary: "run an experiment, or what is left of it",
	args:    "EXPERIMENT",
	example: "semcon run effect-aug --profile quick --data data\nsemcon run effect-aug --data data --only 'cifar10/simclr/*/seed0' --set simclr.rate=0.1",
	kept:    "records and checkpoints are kept",
	run: func(ctx context.Context, args []string) error {
		flags := newFlags("run")
		choice := studyFlags(flags)
		options := &choice.options
		devices := devicesFlag(flags)
		// A run first prints its engine. A refused run prints only the reason.
		announce := sync.OnceFunc(func() { announceEngine(os.Stderr, *devices) })
		options.Bar = func(title string, total int) progress.Bar {
			announce()
			return progress.New(os.Stderr, title, total)
		}
		options.Warn = func(line string) {
			announce()
			fmt.Fprintln(os.Stderr, line)
		}
		flags.IntVar(&options.Parallel, "parallel", 0, "`NUMBER` of runs at the same time; by default 1 in full, and one per core in quick and smoke")
		flags.StringVar(&options.Cache, "cache", "", "`FOLDER` that keeps training images decoded and shrunk, for later epochs and runs; 3 bytes a pixel")
		flags.DurationVar(&options.CheckpointEvery, "checkpoint-every", 20*time.Second, "`TIME` between checkpoints: the most that a kill loses")
		flags.BoolVar(&options.Wait, "wait", false, "wait for cells that another process is running, instead of skipping them")
		names, err := parse(flags, args)
		if err != nil {
			return err
		}
		experiment, table, err := choice.complete(flags, names)
		if err != nil {
			return err
		}
		switch {
		case options.CheckpointEvery < 0:
			return usagef("--checkpoint-every %v is negative", options.CheckpointEvery)
		case options.Parallel < 0:
			return usagef("--parallel %d is negative", options.Parallel)
		case *devices > 1 && options.Parallel > 1:
			return usagef("--parallel %d: runs on several devices go one after the other", options.Parallel)
		}
		if err := checkDevices(*devices); err != nil {
			return err
		}
		options.Parallel = parallel(*options, *devices)
		if err := requireWritable("out", options.Out); err != nil {
			return err
		}
		b, err := backend.OpenDevices(*devices)
		if err != nil {
			return err
		}
		err = experiment.Run(ctx, b, *options)
		if err == nil {
			fmt.Fprintf(os.Stderr, "show the table: %s\n", commandFor("table", cmp.Or(table, experiment.Name), options.Profile, options.Out))
		}
		return choiceError(err)
	},
}

// choiceError makes an invalid option of an experiment an error of usage.
func choiceError(err error) error {
	if wrong := (study.BadOption{}); errors.As(err, &wrong) {
		return usagef("%v", wrong)
	}
	return err
}

// studyChoice is what the flags of run, status and submit choose of an experiment.
type studyChoice struct {
	options       study.Options
	profile, data *string
}

// studyFlags adds the flags that choose an experiment's cells.
func studyFlags(flags *flag.FlagSet) *studyChoice {
	c := &studyChoice{profile: flags.String("profile", string(study.Quick), "`PROFILE` of the run: smoke, quick or full"), data: dataFlag(flags)}
	o := &c.options
	flags.StringVar(&o.Out, "out", "out", "`FOLDER` for records and checkpoints")
	flags.IntVar(&o.Seeds, "seeds", 0, "`NUMBER` of seeds instead of the profile's own")
	flags.Func("set", "change the configuration: `KEY=VALUE`; may be repeated", appendTo(&o.Set))
	flags.Func("only", "run only the cells that match `PATTERN`, such as dataset/method/row/seed; may be repeated", appendTo(&o.Only))
	return c
}

// complete completes the options after the flags are parsed, and finds the experiment that names has. table is the table by whose name it is given, if it
// is.
func (c *studyChoice) complete(flags *flag.FlagSet, names []string) (e study.Experiment, table string, err error) {
	if i := slices.IndexFunc(names, func(name string) bool { return strings.Contains(name, "=") }); i >= 0 {
		return e, "", usagef("%s is not the name of an experiment; a setting is --set %[1]s, each with its own --set", names[i])
	}
	if e, table, err = oneExperiment(names); err != nil {
		return e, "", err
	}
	o := &c.options
	if o.Profile, err = parseProfile(*c.profile); err != nil {
		return e, "", err
	}
	o.Data = *c.data
	dataGiven := false
	flags.Visit(func(f *flag.Flag) {
		dataGiven = dataGiven || f.Name == "data"
		if f.Name == "seeds" && o.Seeds < 1 {
			err = usagef("--seeds %d is not positive", o.Seeds)
		}
	})
	if err != nil {
		return e, "", err
	}
	if !dataGiven && (e.GeneratesData || e.DataBySet && e.DataFor(*o) == "") {
		o.Data = "" // $SEMCON_DATA is for others.
	}
	if o.Data != "" && !e.GeneratesData {
		err = requireFolder("data", o.Data)
	}
	return e, table, err
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
