package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dsnet/try"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/samber/lo"
	"github.com/semcon/semcon/internal/plural"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/backend/xlacache"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/fetch"
	"github.com/semcon/semcon/sccore/experiments"
	"github.com/semcon/semcon/sccore/study"
	"github.com/spf13/cobra"
)

// finding is one line of the doctor's report.
type finding struct {
	State  string `json:"state"` // ok, missing (not needed) or broken.
	What   string `json:"what"`
	Detail string `json:"detail"` // What was found, and how to fix it.
}

const (
	stateOK      = "ok"
	stateMissing = "missing"
	stateBroken  = "broken"
)

func doctorVerb() *cobra.Command {
	c := &cobra.Command{
		Use: "doctor", Short: "check what works here and how to fix the rest; exit status 1 if something needed is broken", Args: noNames,
		Example: "semcon doctor --data /data",
	}
	var data string
	dataFlag(c, &data)
	out := c.Flags().String("out", "out", "`FOLDER` of the results")
	format := formatFlag(c)
	repair := c.Flags().Bool("repair", false, "move broken lines of the records aside")
	clearCache := c.Flags().Bool("clear-cache", false, "remove the programs that XLA has compiled; they are compiled again when they are needed")
	c.Run = func(c *cobra.Command, _ []string) {
		if *clearCache {
			try.E(xlacache.Clear())
		}
		all := slices.Concat(checkBackends(), checkSetup(c.Context()), checkData(data), []finding{checkDisk(*out)}, checkRecords(*out, *repair))
		for _, f := range all {
			fmt.Fprintf(textOf(*format), "%-8s %-20s %s\n", f.State, f.What, f.Detail)
		}
		count := lo.CountBy(all, func(f finding) bool { return f.State == stateBroken })
		printAs(*format, "", all)
		fail(count > 0, "%d broken, see above", count)
	}
	return c
}

// checkBackends computes on the Go engine and on the backend that runs would use.
func checkBackends() []finding {
	findings := []finding{tryBackend("Go backend", backend.Go), {stateOK, "engine", backend.Engine()}}
	if unused := backend.UnusedGPU(); unused != "" {
		findings = append(findings, finding{stateMissing, "GPU", unused + "; to use the GPU: " + xlaRemedy()})
	}
	if backend.IsGo() {
		findings = append(findings, finding{stateMissing, "XLA backend", "everything runs on the slow Go backend; to get XLA: " + xlaRemedy()})
	} else {
		findings = append(findings, tryBackend("backend in use", backend.Config()))
	}
	return append(findings, checkPrograms())
}

// checkPrograms says where compiled programs are kept.
func checkPrograms() finding {
	f, dir := finding{stateMissing, "compiled programs", "not kept: " + xlacache.EnvVar + " is off, or there is no folder for caches"}, xlacache.Dir()
	if err := xlacache.Trusted(dir); err != nil && dir != "" {
		f.Detail = "not kept: " + err.Error()
	} else if dir != "" {
		programs, size := xlacache.Usage()
		f.State, f.Detail = stateOK, fmt.Sprintf("%s, %.1f MB in %s; doctor --clear-cache removes them", plural.Count(programs, "program"), float64(size)/1e6, dir)
	}
	return f
}

// tryBackend adds two numbers on a backend.
func tryBackend(what, config string) finding {
	start := time.Now()
	b, err := backend.OpenConfig(config)
	if err != nil {
		return finding{stateBroken, what, err.Error()}
	}
	switch sum, err := graph.CallOnce(b, graph.Add, float32(2), float32(3)); {
	case err != nil:
		return finding{stateBroken, what, fmt.Sprintf("%s cannot compute: %s", config, oneLine(err))}
	case sum.Value() != float32(5):
		return finding{stateBroken, what, fmt.Sprintf("%s says that 2 + 3 = %v", config, sum.Value())}
	}
	return finding{stateOK, what, fmt.Sprintf("%s: 2 + 3 = 5 in %d ms", config, time.Since(start).Milliseconds())}
}

// checkSetup checks what "semcon lab" installs and runs each of its programs.
func checkSetup(ctx context.Context) (findings []finding) {
	in, err := installOf(false)
	if err != nil {
		return []finding{{stateMissing, "notebooks", err.Error()}}
	}
	steps, limits, err := in.state(ctx)
	switch {
	case errors.Is(err, errNoGo): // A machine that runs the binary alone.
		return []finding{{stateMissing, "notebooks", err.Error()}}
	case err != nil:
		return []finding{{stateBroken, "set-up", err.Error()}}
	}
	findings = lo.Map(limits, func(limit string, _ int) finding { return finding{stateMissing, "this machine", limit} })
	probes := map[string][]string{
		"Jupyter":    {in.python(), "-c", "import jupyterlab; print('JupyterLab', jupyterlab.__version__)"},
		"Go kernel":  {in.dir("bin", "gonb"), "-V"},
		"completion": {in.dir("bin", "gopls"), "version"},
	}
	for _, step := range steps {
		f := finding{stateOK, step.name, in.dir()}
		if command := probes[step.name]; step.pending {
			f.State, f.Detail = stateBroken, "not installed or out of date: "+setupCommand
		} else if command != nil {
			said, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput()
			f.Detail, _, _ = strings.Cut(strings.TrimSpace(string(said)), "\n")
			if err != nil {
				f.State, f.Detail = stateBroken, fmt.Sprintf("%s: %v: remove %s, then %s", command[0], err, in.dir(), setupCommand)
			}
		}
		findings = append(findings, f)
	}
	return findings
}

// checkData reports which datasets are in a folder. None is needed.
func checkData(folder string) []finding {
	if folder == "" {
		return []finding{{stateMissing, "data", "no data folder, so only synthetic images; set one with --data or SEMCON_DATA"}}
	}
	if err := ended(func() { requireFolder("data", folder) }); err != nil {
		return []finding{{stateBroken, "data", err.Error()}}
	}
	findings := lo.Map(datasets.Available(folder), func(split datasets.Status, _ int) finding {
		fetch := fmt.Sprintf("not in %s: semcon data fetch %s --data %s", folder, split.Key, quote(folder))
		return finding{splitState(split), split.Name + " " + string(split.Split), lo.Ternary(split.Missing() && split.Fetchable, fetch, split.String())}
	})
	if ext, ok := datasets.FindClassFolders(folder); ok {
		findings = append(findings, finding{stateOK, "images", describeClassFolders(folder, ext)})
	}
	return findings
}

// splitState is the state of a split of a dataset.
func splitState(s datasets.Status) string {
	switch {
	case s.Missing():
		return stateMissing
	case s.Err != nil:
		return stateBroken
	}
	return stateOK
}

// checkDisk checks the free space for results. A full study writes a few hundred megabytes.
func checkDisk(folder string) finding {
	free, err := fetch.Free(folder)
	f := finding{stateOK, "disk", fmt.Sprintf("%.1f GiB free for %s", float64(free)/(1<<30), try.E1(filepath.Abs(folder)))}
	switch {
	case err != nil:
		f.State, f.Detail = stateBroken, err.Error()
	case free < 2<<30:
		f.State, f.Detail = stateBroken, f.Detail+": less than 2 GiB; free some space, or choose another folder with --out"
	}
	return f
}

// checkRecords looks for broken lines among the records of all experiments, and moves them aside if asked to.
func checkRecords(out string, repair bool) (findings []finding) {
	for _, e := range experiments.All() {
		dir, f := study.Folder(out, e.Name), finding{stateBroken, "records of " + e.Name, ""}
		broken, err := study.BrokenLines(dir)
		if err == nil && len(broken) > 0 {
			f.Detail = fmt.Sprintf("%s, %s; doctor --repair moves them aside", plural.Count(len(broken), "broken line"), broken[0])
			if repair {
				var moved int
				moved, err = study.Repair(dir)
				f.State, f.Detail = stateOK, fmt.Sprintf("%s moved to %s", plural.Count(moved, "broken line"), filepath.Join(dir, study.BrokenFile))
			}
		}
		if err != nil {
			f.State, f.Detail = stateBroken, err.Error()
		}
		if f.Detail != "" {
			findings = append(findings, f)
		}
	}
	return findings
}
