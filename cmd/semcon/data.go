package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

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
		Example:     "semcon data --data data\nsemcon data fetch cifar10 cifar100 --data data",
		Annotations: map[string]string{kept: "what is fetched is kept"},
	}
	var folder string
	dataFlag(c, &folder)
	from := c.Flags().String("from", fetch.OfficialURL, "`URL` of the folder to fetch archives from")
	var known []string
	for _, split := range datasets.Available("") {
		if split.Fetchable && split.Split == datasets.Train {
			known = append(known, split.Key)
		}
	}
	complete(c, "", append([]string{"fetch"}, known...)...)
	c.RunE = func(c *cobra.Command, names []string) error {
		switch {
		case len(names) == 0:
			return listData(c.Context(), folder)
		case names[0] != "fetch":
			return usagef("unknown action %q, want fetch", names[0])
		case len(names) == 1:
			return usagef("name a dataset to fetch: %s", strings.Join(known, " or "))
		case folder == "":
			return usagef("name a folder to fetch to: --data FOLDER or SEMCON_DATA")
		}
		for _, name := range names[1:] {
			if !slices.Contains(known, name) {
				return usagef("cannot fetch dataset %q, only %s", name, strings.Join(known, " and "))
			}
		}
		for _, name := range names[1:] {
			check(fetchDataset(c.Context(), name, folder, *from))
		}
		return nil
	}
	return c
}

// listData reads every split in the folder and prints its identity, to be compared with the identities in run records.
func listData(ctx context.Context, folder string) error {
	if folder == "" {
		fmt.Printf("%s, or fetch: semcon data fetch cifar10 --data data\n", checkData(folder)[0].detail)
		return nil
	}
	check(requireFolder("data", folder))
	count := 0
	for _, split := range datasets.Available(folder) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		identity, err := split.Identity()
		state := stateOK
		switch {
		case split.Missing():
			state = stateMissing
		case err != nil:
			state, split.Err = stateBroken, err
			count++
		}
		fmt.Printf("%-8s %-12s %-6s %s\n", state, split.Name, split.Split, split)
		if err == nil {
			fmt.Printf("%28s %s\n%28s %s\n", "", split.Folder, "", identity)
		}
	}
	if ext, ok := datasets.FindClassFolders(folder); ok {
		fmt.Printf("%-8s %-12s %-6s %s\n", stateOK, "images", "both", describeClassFolders(folder, ext))
	}
	fmt.Printf("%-8s %-12s %-6s needs no data\n", stateOK, "synthetic", "both")
	return broken(count)
}

// describeClassFolders describes the user's class folders or archives.
func describeClassFolders(folder, ext string) string {
	return fmt.Sprintf("class folders in %s and %s", filepath.Join(folder, "train"+ext), filepath.Join(folder, "test"+ext))
}

func fetchDataset(ctx context.Context, name, folder, from string) error {
	const megabyte = 1_000_000
	bar := progress.Discard // Until the server sends the size.
	waiting := func() {
		fmt.Fprintf(os.Stderr, "another process is fetching %s into %s; waiting for it\n", name, folder)
	}
	err := fetch.Dataset(ctx, name, folder, fetch.Options{BaseURL: from, Waiting: waiting, Progress: func(done, total int64) {
		if bar == progress.Discard {
			bar = progress.New(os.Stderr, name+" (MB)", int(total/megabyte))
		}
		bar.Set(int(done/megabyte), "")
	}})
	bar.Close()
	if err != nil {
		return err
	}
	for _, split := range datasets.Available(folder) {
		if split.Key == name {
			fmt.Printf("%s %s: %s in %s\n", split.Name, split.Split, split, split.Folder)
		}
	}
	return nil
}

func listVerb() *cobra.Command {
	c := &cobra.Command{
		Use: "list [EXPERIMENT...]", Short: "show the engine, the data that are there, and the experiments: what each reproduces, its data, its cost",
		Example: "semcon list --data data\nsemcon list pretrain ablation\nsemcon list --long",
	}
	completeExperiments(c, true)
	var data string
	dataFlag(c, &data)
	long := c.Flags().Bool("long", false, "show the question, the data and the cost of every profile of each experiment")
	c.RunE = func(_ *cobra.Command, names []string) error {
		for i := range names {
			e, _, err := oneExperiment(names[i : i+1])
			check(err)
			if i > 0 {
				fmt.Println()
			}
			fmt.Print(describeExperiment(e))
		}
		if len(names) > 0 {
			return nil
		}
		fmt.Printf("engine  %s\n\ndata\n", backend.Engine())
		for _, f := range checkData(data) {
			if f.state == stateOK {
				f.state = "found"
			}
			fmt.Printf("  %-8s %-22s %s\n", f.state, f.what, f.detail)
		}
		if *long {
			for _, e := range experiments.All() {
				fmt.Printf("\n%s", describeExperiment(e))
			}
			return nil
		}
		fmt.Print("\nexperiments: what each reproduces, and its cost in the quick profile (\"semcon list NAME\" and --long show more)\n")
		for _, e := range experiments.All() {
			fmt.Printf("  %-17s %s; %s\n", e.Name, e.Reproduces, e.Cost[study.Quick])
		}
		return nil
	}
	return c
}

// describeExperiment describes an experiment in seven lines.
func describeExperiment(e study.Experiment) string {
	text := fmt.Sprintf("%s\n  %-10s  %s\n  %-10s  %s\n  %-10s  %s\n", e.Name, "asks", e.Title, "reproduces", e.Reproduces, "data", e.Data)
	for _, profile := range []study.Profile{study.Smoke, study.Quick, study.Full} {
		text += fmt.Sprintf("  %-10s  %s\n", profile, e.Cost[profile])
	}
	return text
}
