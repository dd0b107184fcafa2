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

	"github.com/gomlx/gomlx/core/graph"
	"github.com/janpfeifer/must"
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
	c.RunE = func(c *cobra.Command, _ []string) error {
		if *clearCache {
			must.M(xlacache.Clear())
		}
		count, all := 0, []finding{}
		for _, f := range slices.Concat(checkBackends(), checkSetup(c.Context()), checkData(data), []finding{checkDisk(*out)}, checkRecords(*out, *repair)) {
			all = append(all, f)
			fmt.Fprintf(textOf(*format), "%-8s %-20s %s\n", f.State, f.What, f.Detail)
			if f.State == stateBroken {
				count++
			}
		}
		must.M(printAs(*format, "", all))
		return broken(count)
	}
	return c
}

// broken is the error of a report with so many broken things.
func broken(count int) error {
	if count == 0 {
		return nil
	}
	return fmt.Errorf("%d broken, see above", count)
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
	const what = "compiled programs"
	dir := xlacache.Dir()
	if dir == "" {
		return finding{stateMissing, what, "not kept: " + xlacache.EnvVar + " is off, or there is no folder for caches"}
	}
	if err := xlacache.Trusted(dir); err != nil {
		return finding{stateMissing, what, "not kept: " + err.Error()}
	}
	programs, size := xlacache.Usage()
	return finding{stateOK, what, fmt.Sprintf("%s, %.1f MB in %s; doctor --clear-cache removes them", plural.Count(programs, "program"), float64(size)/1e6, dir)}
}

// tryBackend adds two numbers on a backend.
func tryBackend(what, config string) finding {
	start := time.Now()
	b, err := backend.OpenConfig(config)
	if err != nil {
		return finding{stateBroken, what, err.Error()}
	}
	sum, err := graph.CallOnce(b, func(x, y *graph.Node) *graph.Node { return graph.Add(x, y) }, float32(2), float32(3))
	if err != nil {
		return finding{stateBroken, what, fmt.Sprintf("%s cannot compute: %s", config, oneLine(err))}
	}
	if sum.Value() != float32(5) {
		return finding{stateBroken, what, fmt.Sprintf("%s says that 2 + 3 = %v", config, sum.Value())}
	}
	return finding{stateOK, what, fmt.Sprintf("%s: 2 + 3 = 5 in %d ms", config, time.Since(start).Milliseconds())}
}

// checkSetup checks what "semcon lab" installs and runs each of its programs.
func checkSetup(ctx context.Context) []finding {
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
	var findings []finding
	for _, limit := range limits {
		findings = append(findings, finding{stateMissing, "this machine", limit})
	}
	probes := map[string][]string{
		"Jupyter":    {in.python(), "-c", "import jupyterlab; print('JupyterLab', jupyterlab.__version__)"},
		"Go kernel":  {in.dir("bin", "gonb"), "-V"},
		"completion": {in.dir("bin", "gopls"), "version"},
	}
	for _, step := range steps {
		f := finding{stateOK, step.name, in.dir()}
		if step.pending {
			f = finding{stateBroken, step.name, "not installed or out of date: " + setupCommand}
		} else if command := probes[step.name]; command != nil {
			said, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput()
			f.Detail, _, _ = strings.Cut(strings.TrimSpace(string(said)), "\n")
			if err != nil {
				f = finding{stateBroken, step.name, fmt.Sprintf("%s: %v: remove %s, then %s", command[0], err, in.dir(), setupCommand)}
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
	if err := requireFolder("data", folder); err != nil {
		return []finding{{stateBroken, "data", err.Error()}}
	}
	var findings []finding
	for _, split := range datasets.Available(folder) {
		f := finding{stateOK, split.Name + " " + string(split.Split), split.String()}
		switch {
		case split.Missing() && split.Fetchable:
			f.State, f.Detail = stateMissing, fmt.Sprintf("not in %s: semcon data fetch %s --data %s", folder, split.Key, quote(folder))
		case split.Missing():
			f.State = stateMissing
		case split.Err != nil:
			f.State = stateBroken
		}
		findings = append(findings, f)
	}
	if ext, ok := datasets.FindClassFolders(folder); ok {
		findings = append(findings, finding{stateOK, "images", describeClassFolders(folder, ext)})
	}
	return findings
}

// checkDisk checks the free space for results. A full study writes a few hundred megabytes.
func checkDisk(folder string) finding {
	const what, needed = "disk", 2 << 30
	free, err := fetch.Free(folder)
	if err != nil {
		return finding{stateBroken, what, err.Error()}
	}
	detail := fmt.Sprintf("%.1f GiB free for %s", float64(free)/(1<<30), must.M1(filepath.Abs(folder)))
	if free < needed {
		return finding{stateBroken, what, detail + ": less than 2 GiB; free some space, or choose another folder with --out"}
	}
	return finding{stateOK, what, detail}
}

// checkRecords looks for broken lines among the records of all experiments, and moves them aside if asked to.
func checkRecords(out string, repair bool) (findings []finding) {
	for _, e := range experiments.All() {
		dir := study.Folder(out, e.Name)
		broken, err := study.BrokenLines(dir)
		if err == nil && len(broken) > 0 && repair {
			var moved int
			if moved, err = study.Repair(dir); err == nil {
				findings = append(findings, finding{stateOK, "records of " + e.Name, fmt.Sprintf("%s moved to %s", plural.Count(moved, "broken line"), filepath.Join(dir, study.BrokenFile))})
				continue
			}
		}
		switch {
		case err != nil:
			findings = append(findings, finding{stateBroken, "records of " + e.Name, err.Error()})
		case len(broken) > 0:
			findings = append(findings, finding{stateBroken, "records of " + e.Name, fmt.Sprintf("%s, %s; doctor --repair moves them aside", plural.Count(len(broken), "broken line"), broken[0])})
		}
	}
	return findings
}
