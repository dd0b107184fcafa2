package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/semcon/semcon/internal/panics"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/experiments"
	"github.com/semcon/semcon/sccore/progress"
	"github.com/semcon/semcon/sccore/report"
	"github.com/semcon/semcon/sccore/study"
)

var reproduceVerb = verb{
	name:    "reproduce",
	summary: "run every experiment of a profile, or the rest of them, and write the report",
	args:    "[EXPERIMENT…]",
	example: "semcon reproduce --profile smoke --out smoke\nsemcon reproduce --profile quick --data data\nsemcon reproduce pretrain transfer video",
	kept:    "records and checkpoints are kept",
	run:     runReproduce,
}

func runReproduce(ctx context.Context, args []string) error {
	flags := newFlags("reproduce")
	o := study.Options{CheckpointEvery: 20 * time.Second}
	profile := flags.String("profile", string(study.Quick), "`PROFILE` of the runs: smoke, quick or full")
	data := dataFlag(flags)
	flags.StringVar(&o.Out, "out", "out", "`FOLDER` for records, checkpoints and the report")
	flags.IntVar(&o.Seeds, "seeds", 0, "`NUMBER` of seeds instead of each profile's own")
	flags.IntVar(&o.Parallel, "parallel", 0, "`NUMBER` of runs at the same time; by default 1 in full, and one per core in quick and smoke")
	target := reportFlags(flags)
	names, err := parse(flags, args)
	if err != nil {
		return err
	}
	if o.Profile, err = parseProfile(*profile); err != nil {
		return err
	}
	chosen, err := inOrder(names)
	switch {
	case err != nil:
		return err
	case o.Seeds < 0:
		return usagef("--seeds %d is negative", o.Seeds)
	case o.Parallel < 0:
		return usagef("--parallel %d is negative", o.Parallel)
	}
	o.Parallel = parallel(o, 1)
	if o.Data = *data; o.Data != "" {
		if err := requireFolder("data", o.Data); err != nil {
			return err
		}
	}
	if err := requireWritable("out", o.Out); err != nil {
		return err
	}
	if err := target.check(o.Out); err != nil {
		return err
	}
	b, err := backend.Open()
	if err != nil {
		return err
	}
	announce := sync.OnceFunc(func() { announceEngine(os.Stderr, 1) })
	o.Bar = func(title string, total int) progress.Bar {
		announce()
		return progress.New(os.Stderr, title, total)
	}
	o.Warn = func(line string) {
		announce()
		fmt.Fprintln(os.Stderr, line)
	}
	failures := map[string]error{}
	var failed []string
	for i, e := range chosen {
		fmt.Fprintf(os.Stderr, "%d of %d: %s\n", i+1, len(chosen), e.Name)
		options := o
		if options.Data = e.DataFor(o); options.Data == "" && o.Data != "" && !e.GeneratesData {
			why := fmt.Sprintf("has none of its datasets in %s", o.Data)
			if e.DataBySet {
				why = "needs files for photographs that --set names"
			}
			fmt.Fprintf(os.Stderr, "%s %s: it takes synthetic images\n", e.Name, why)
		}
		err := panics.Catch(func() error { return e.Run(ctx, b, options) })
		if ctx.Err() != nil {
			return err
		}
		if err != nil {
			failures[e.Name], failed = err, append(failed, e.Name)
			fmt.Fprintf(os.Stderr, "%s failed: %s\n", e.Name, oneLine(err))
		}
	}
	fmt.Fprintln(os.Stderr, "the report")
	if err := target.write(ctx, report.Options{Profile: o.Profile, Out: o.Out, Data: o.Data, Backend: b, Failures: failures}); err != nil {
		return err
	}
	if len(failed) > 0 {
		return fmt.Errorf("%d of %d experiments failed: %s; the report says why", len(failed), len(chosen), strings.Join(failed, ", "))
	}
	return nil
}

// inOrder returns the named experiments, or all if there are no names, each after those whose runs it reads.
func inOrder(names []string) (chosen []study.Experiment, err error) {
	wanted := map[string]bool{}
	for _, name := range names {
		e, _, err := experiments.Find(name)
		if err != nil {
			return nil, usagef("%v", err)
		}
		wanted[e.Name] = true
	}
	for _, e := range experiments.All() {
		if len(names) == 0 || wanted[e.Name] {
			chosen = append(chosen, e)
		}
	}
	return chosen, nil
}

// parallel returns the number of runs at the same time on so many devices: the one that the options have, or the default of their profile.
func parallel(o study.Options, devices int) int {
	switch {
	case o.Parallel > 0:
		return o.Parallel
	case o.Profile == study.Full:
		return 1 // A step of full size fills the device.
	case devices > 1:
		return 1 // Two runs that wait for each other's devices would wait for ever.
	}
	return runtime.NumCPU() // A small step fills only one core.
}
