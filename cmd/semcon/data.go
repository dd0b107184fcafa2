package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"al.essio.dev/pkg/shellescape"
	"github.com/dsnet/try"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/samber/lo"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/internal/plural"
	"github.com/semcon/semcon/internal/spelling"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/backend/xlacache"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/fetch"
	"github.com/semcon/semcon/sccore/experiments"
	"github.com/semcon/semcon/sccore/progress"
	"github.com/semcon/semcon/sccore/study"
	"github.com/spf13/cobra"
)

func dataVerb(c *cobra.Command, flags flagTexts) {
	var f struct{ Data, From, Format, For string }
	flags.bind(c, &f)
	complete(c, "for", lo.Map(experiments.All(), func(e study.Experiment, _ int) string { return e.Name })...)
	known := lo.Map(fetch.Table, func(d fetch.Dataset, _ int) string { return d.Key })
	c.ValidArgsFunction = func(_ *cobra.Command, names []string, _ string) ([]string, cobra.ShellCompDirective) {
		return lo.Ternary(len(names) == 0, []string{"fetch"}, known), cobra.ShellCompDirectiveNoFileComp
	}
	c.Run = func(c *cobra.Command, names []string) {
		if len(names) == 0 && f.For == "" {
			listData(c.Context(), f.Format, f.Data)
			return
		}
		refuse(len(names) == 0, "--for %[1]s: the word fetch is missing: semcon data fetch --for %[1]s", f.For)
		refuse(names[0] != "fetch", "unknown action %q, want fetch", strings.Join(names, " "))
		refuse(len(names) > 1 && f.For != "", "--for %s: name datasets or an experiment, not both", f.For)
		refuse(len(names) == 1 && f.For == "", "name a dataset to fetch: %s", strings.Join(known, " or "))
		if names = names[1:]; f.For != "" {
			e, _ := oneExperiment([]string{f.For})
			names = lo.Filter(e.Reads, func(name string, _ int) bool {
				return slices.ContainsFunc(datasets.Available(f.Data, name), datasets.Status.Missing)
			})
			if len(names) == 0 {
				fmt.Printf("%s lacks no dataset\n", e.Name)
			}
		}
		for _, name := range names {
			refuse(!slices.Contains(known, name),
				"cannot fetch dataset %q%s only %s", name, cmp.Or(spelling.DidYouMean(name, known), ","), strings.Join(known, ", "))
		}
		refuse(f.Data == "", "name a folder to fetch to: --data FOLDER or SEMCON_DATA")
		fetchDatasets(c.Context(), names, f.Data, f.From)
	}
}

// listData reads every split in the folder and prints its identity, to be compared with the identities in run records.
func listData(ctx context.Context, format, folder string) {
	all, w := []map[string]any{}, textOf(format)
	if folder == "" {
		printAs(format, checkData(folder)[0].Detail+", or fetch: semcon data fetch cifar10 --data data\n", all)
		return
	}
	requireFolder("data", folder)
	count, lacking := 0, map[string]bool{}
	for _, split := range datasets.Available(folder) {
		try.E(ctx.Err())
		identity, err := split.Identity()
		split.Err = err
		state := splitState(split)
		switch state {
		case stateMissing:
			lacking[split.Key] = true
		case stateBroken:
			count++
		}
		all = append(all, map[string]any{
			"state": state, "dataset": split.Key, "split": split.Split, "folder": split.Folder, "count": split.Count, "official_count": split.Official, "identity": identity,
			"detail": split.String(),
		})
		fmt.Fprintf(w, "%-8s %-12s %-6s %s\n", state, split.Name, split.Split, split)
		if err == nil {
			fmt.Fprintf(w, "%28s %s\n%28s %s\n", "", split.Folder, "", identity)
		}
	}
	if ext, ok := datasets.FindClassFolders(folder); ok {
		fmt.Fprintf(w, "%-8s %-12s %-6s %s\n", stateOK, "images", "both", describeClassFolders(folder, ext))
	}
	fmt.Fprintf(w, "%-8s %-12s %-6s needs no data\n", stateOK, "synthetic", "both")
	for i, d := range fetch.Table {
		if i == 0 && len(lacking) > 0 {
			fmt.Fprintf(w, "\n\"semcon data fetch DATASET --data %s\" downloads, or says how to get:\n", shellescape.Quote(folder))
		}
		size := lo.Ternary(d.Steps == "", fetch.Size(d.Bytes()), "by hand")
		if lacking[d.Key] {
			fmt.Fprintf(w, "  %-14s %-8s %s\n", d.Key, size, d.Name)
		}
	}
	printAs(format, "", all)
	fail(count > 0, "%d broken, see above", count)
}

// describeClassFolders describes the user's class folders or archives.
func describeClassFolders(folder, ext string) string {
	return fmt.Sprintf("class folders in %s and %s", filepath.Join(folder, "train"+ext), filepath.Join(folder, "test"+ext))
}

// fetchDatasets fetches datasets, and prints the steps for those that a person has to get.
func fetchDatasets(ctx context.Context, names []string, folder, from string) {
	const megabyte = 1_000_000
	var fetched, byHand []string
	for _, d := range fetch.Table {
		switch {
		case !slices.Contains(names, d.Key):
		case d.Steps == "":
			fetched = append(fetched, d.Key)
		case slices.ContainsFunc(datasets.Available(folder, d.Key), datasets.Status.Missing):
			byHand = append(byHand, d.Name)
			fmt.Print(strings.ReplaceAll(d.Steps, "DATA", folder))
		}
	}
	bar, title := progress.Discard, ""
	err := fetch.Datasets(ctx, folder, fetch.Options{
		BaseURL: from,
		Say:     func(line string) { fmt.Println(line) },
		Progress: func(what string, done, total int64) {
			if what != title { // Not before the server sends the size.
				bar.Close()
				bar, title = progress.New(os.Stderr, what+" (MB)", int(total/megabyte)), what
			}
			bar.Set(int(done/megabyte), "")
		},
	}, fetched...)
	bar.Close()
	try.E(err)
	for _, name := range names {
		for _, split := range datasets.Available(folder, name) {
			if !split.Missing() {
				fmt.Printf("%s %s: %s in %s\n", split.Name, split.Split, split, split.Folder)
			}
		}
	}
	fail(len(byHand) > 0, "%s: to be got by hand, see above", strings.Join(byHand, " and "))
}

func listVerb(c *cobra.Command, flags flagTexts) {
	completeExperiments(c)
	var f struct {
		Data, Format string
		Long         bool
	}
	flags.bind(c, &f)
	c.Run = func(_ *cobra.Command, names []string) {
		chosen := experiments.All()
		if len(names) > 0 {
			chosen = lo.Map(names, func(name string, _ int) study.Experiment { e, _ := oneExperiment([]string{name}); return e })
		}
		if f.Format == "json" {
			printAs("json", "", map[string]any{"engine": backend.Engine(), "data": checkData(f.Data), "experiments": lo.Map(chosen, func(e study.Experiment, _ int) map[string]any {
				return map[string]any{"name": e.Name, "asks": e.Title, "reproduces": e.Reproduces, "data": e.Data, "cost": e.Cost}
			})})
			return
		}
		if len(names) == 0 {
			fmt.Printf("engine  %s\n\ndata\n", backend.Engine())
			for _, found := range checkData(f.Data) {
				fmt.Printf("  %-8s %-22s %s\n", strings.Replace(found.State, stateOK, "found", 1), found.What, found.Detail)
			}
			fmt.Println()
			if !f.Long {
				fmt.Println("experiments: what each reproduces, and its cost in the quick profile (\"semcon list NAME\" and --long show more)")
			}
		}
		for i, e := range chosen {
			switch {
			case len(names) == 0 && !f.Long:
				fmt.Printf("  %-17s %s; %s\n", e.Name, e.Reproduces, e.Cost[study.Quick])
				continue
			case i > 0:
				fmt.Println()
			}
			fmt.Print(describeExperiment(e))
		}
	}
}

// describeExperiment describes an experiment in a line for each thing, and for each profile.
func describeExperiment(e study.Experiment) string {
	if slices.ContainsFunc(figures.Claims(), func(c figures.Claim) bool { return c.Experiment == e.Name }) {
		e.Reproduces += fmt.Sprintf(", of which each needs %d seeds", figures.MinSeeds)
	}
	text := fmt.Sprintf("%s\n  %-10s  %s\n  %-10s  %s\n  %-10s  %s\n", e.Name, "asks", e.Title, "reproduces", e.Reproduces, "data", e.Data)
	for _, profile := range study.Profiles {
		if e.Cost[profile] != "" {
			text += fmt.Sprintf("  %-10s  %s\n", profile, e.Cost[profile])
		}
	}
	return text
}

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

func doctorVerb(c *cobra.Command, flags flagTexts) {
	var f struct {
		Data, Out, Format  string
		Repair, ClearCache bool
	}
	flags.bind(c, &f)
	c.Run = func(c *cobra.Command, _ []string) {
		if f.ClearCache {
			try.E(xlacache.Clear())
		}
		all := slices.Concat(checkBackends(), checkSetup(c.Context()), checkData(f.Data), []finding{checkDisk(f.Out)}, checkRecords(f.Out, f.Repair))
		for _, found := range all {
			fmt.Fprintf(textOf(f.Format), "%-8s %-20s %s\n", found.State, found.What, found.Detail)
		}
		count := lo.CountBy(all, func(f finding) bool { return f.State == stateBroken })
		printAs(f.Format, "", all)
		fail(count > 0, "%d broken, see above", count)
	}
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
		fetch := fmt.Sprintf("not in %s: semcon data fetch %s --data %s", folder, split.Key, shellescape.Quote(folder))
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
