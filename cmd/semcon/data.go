package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/internal/spelling"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/fetch"
	"github.com/semcon/semcon/sccore/experiments"
	"github.com/semcon/semcon/sccore/progress"
	"github.com/semcon/semcon/sccore/study"
	"github.com/spf13/cobra"
)

func dataVerb() *cobra.Command {
	c := &cobra.Command{
		Use: "data [fetch DATASET...]", Short: "show which datasets are available, and fetch those that are missing",
		Long: "With fetch, datasets are downloaded from their official places, checked and unpacked. It says first how much that is, and whether it fits on the " +
			"disk. An interrupted call goes on. For datasets that need an account it prints what there is to do, and the exit status is 1.",
		Example:     "semcon data --data data\nsemcon data fetch cifar10 cifar100 --data data\nsemcon data fetch --for transfer --data data",
		Annotations: map[string]string{kept: "what is fetched is kept"},
	}
	var folder string
	dataFlag(c, &folder)
	from := c.Flags().String("from", "", "`URL` of a folder to fetch archives from; by default their official places")
	format := formatFlag(c)
	lacking := c.Flags().String("for", "", "fetch what an `EXPERIMENT` lacks")
	complete(c, "for", lo.Map(experiments.All(), func(e study.Experiment, _ int) string { return e.Name })...)
	known := lo.Map(fetch.Table, func(d fetch.Dataset, _ int) string { return d.Key })
	c.ValidArgsFunction = func(_ *cobra.Command, names []string, _ string) ([]string, cobra.ShellCompDirective) {
		return lo.Ternary(len(names) == 0, []string{"fetch"}, known), cobra.ShellCompDirectiveNoFileComp
	}
	c.Run = func(c *cobra.Command, names []string) {
		if len(names) == 0 && *lacking == "" {
			listData(c.Context(), *format, folder)
			return
		}
		refuse(len(names) == 0 || names[0] != "fetch", "unknown action %q, want fetch", strings.Join(names, " "))
		refuse(len(names) > 1 && *lacking != "", "--for %s: name datasets or an experiment, not both", *lacking)
		refuse(len(names) == 1 && *lacking == "", "name a dataset to fetch: %s", strings.Join(known, " or "))
		refuse(folder == "", "name a folder to fetch to: --data FOLDER or SEMCON_DATA")
		if names = names[1:]; *lacking != "" {
			e, _ := oneExperiment([]string{*lacking})
			names = lo.Filter(e.Reads, func(name string, _ int) bool {
				return slices.ContainsFunc(datasets.Available(folder, name), datasets.Status.Missing)
			})
			if len(names) == 0 {
				fmt.Printf("%s lacks no dataset\n", e.Name)
			}
		}
		for _, name := range names {
			refuse(!slices.Contains(known, name),
				"cannot fetch dataset %q%s only %s", name, cmp.Or(spelling.DidYouMean(name, known), ","), strings.Join(known, ", "))
		}
		fetchDatasets(c.Context(), names, folder, *from)
	}
	return c
}

// splitLine is a split of a dataset in JSON.
type splitLine struct {
	State    string         `json:"state"` // ok, missing or broken.
	Dataset  string         `json:"dataset"`
	Split    datasets.Split `json:"split"`
	Folder   string         `json:"folder"`
	Count    int            `json:"count"`
	Official int            `json:"official_count"`
	Identity string         `json:"identity"`
	Detail   string         `json:"detail"`
}

// listData reads every split in the folder and prints its identity, to be compared with the identities in run records.
func listData(ctx context.Context, format, folder string) {
	all, w := []splitLine{}, textOf(format)
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
		all = append(all, splitLine{state, split.Key, split.Split, split.Folder, split.Count, split.Official, identity, split.String()})
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
			fmt.Fprintf(w, "\n\"semcon data fetch DATASET --data %s\" downloads, or says how to get:\n", quote(folder))
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

func listVerb() *cobra.Command {
	c := &cobra.Command{
		Use: "list [EXPERIMENT...]", Short: "show the engine, the data that are there, and the experiments: what each reproduces, its data, its cost",
		Example: "semcon list --data data\nsemcon list pretrain ablation\nsemcon list --long",
	}
	completeExperiments(c)
	var data string
	dataFlag(c, &data)
	format := formatFlag(c)
	long := c.Flags().Bool("long", false, "show the question, the data and the cost of every profile of each experiment")
	c.Run = func(_ *cobra.Command, names []string) {
		chosen := experiments.All()
		if len(names) > 0 {
			chosen = lo.Map(names, func(name string, _ int) study.Experiment { e, _ := oneExperiment([]string{name}); return e })
		}
		if *format == "json" {
			printAs("json", "", listing{backend.Engine(), checkData(data), lo.Map(chosen, func(e study.Experiment, _ int) experimentLine {
				return experimentLine{e.Name, e.Title, e.Reproduces, e.Data, e.Cost}
			})})
			return
		}
		if len(names) == 0 {
			fmt.Printf("engine  %s\n\ndata\n", backend.Engine())
			for _, f := range checkData(data) {
				fmt.Printf("  %-8s %-22s %s\n", strings.Replace(f.State, stateOK, "found", 1), f.What, f.Detail)
			}
			fmt.Println()
			if !*long {
				fmt.Println("experiments: what each reproduces, and its cost in the quick profile (\"semcon list NAME\" and --long show more)")
			}
		}
		for i, e := range chosen {
			switch {
			case len(names) == 0 && !*long:
				fmt.Printf("  %-17s %s; %s\n", e.Name, e.Reproduces, e.Cost[study.Quick])
				continue
			case i > 0:
				fmt.Println()
			}
			fmt.Print(describeExperiment(e))
		}
	}
	return c
}

// listing is what "semcon list --format json" prints.
type listing struct {
	Engine      string           `json:"engine"`
	Data        []finding        `json:"data"`
	Experiments []experimentLine `json:"experiments"`
}

// experimentLine is an experiment in JSON.
type experimentLine struct {
	Name       string                   `json:"name"`
	Asks       string                   `json:"asks"`
	Reproduces string                   `json:"reproduces"`
	Data       string                   `json:"data"`
	Cost       map[study.Profile]string `json:"cost"`
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
