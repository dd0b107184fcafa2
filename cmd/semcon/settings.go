package main

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
)

var settingsVerb = verb{
	name:    "settings",
	summary: "list what --set changes of an experiment: every key, its default, what it means",
	args:    "EXPERIMENT [WORD]",
	example: "semcon settings pretrain\nsemcon settings pretrain second.lambdas --profile full",
	run:     runSettings,
}

// meaningsFile has the comments of the fields of configurations, by [settings.Setting].Field. The test of this verb writes and holds it.
//
//go:embed settings.json
var meaningsFile []byte

// settingsOfCells lists the settings of an experiment in a profile, each once, and the dataset whose defaults they are. What differs between cells, such as the row,
// has the value of the first one that has it.
func settingsOfCells(e study.Experiment, o study.Options, dataset string) ([]settings.Setting, error) {
	cells, err := e.Cells(o, dataset)
	if err != nil {
		return nil, err
	}
	var all []settings.Setting
	for _, cell := range cells {
		listed, err := settings.List(cell.Config)
		if err != nil {
			return nil, err
		}
		for _, s := range listed {
			if strings.HasSuffix(s.Field[:strings.LastIndex(s.Field, ".")], "encoders.Encoder") { // --set weights.ROW=FILE decides it.
				continue
			}
			if !slices.ContainsFunc(all, func(other settings.Setting) bool { return other.Key == s.Key }) {
				all = append(all, s)
			}
		}
	}
	return all, nil
}

func runSettings(_ context.Context, args []string) error {
	flags := newFlags("settings")
	name := flags.String("profile", string(study.Quick), "`PROFILE` whose defaults are shown: smoke, quick or full")
	dataset := flags.String("dataset", "", "`NAME` of the dataset whose defaults are shown, as in names of runs: coco, images; by default synthetic ones, in full the first")
	names, err := parse(flags, args)
	if err != nil {
		return err
	}
	word := ""
	if len(names) == 2 {
		names, word = names[:1], names[1]
	}
	experiment, _, err := oneExperiment(names)
	if err != nil {
		return err
	}
	profile, err := parseProfile(*name)
	if err != nil {
		return err
	}
	options := study.Options{Profile: profile, Seeds: 1, Out: "out"}
	chosen := *dataset
	if chosen == "" && !experiment.GeneratesData {
		chosen = "synthetic"
	}
	if chosen != "synthetic" && chosen != "" {
		options.Data = "data"
	}
	if profile == study.Full { // It starts from a file, which need not be there.
		options.Set = []string{"init=FILE"}
	}
	all, err := settingsOfCells(experiment, options, chosen)
	if profile == study.Full && err != nil {
		options.Set = nil
		all, err = settingsOfCells(experiment, options, chosen)
	}
	if err != nil {
		return err
	}
	var meanings map[string]string
	if err := json.Unmarshal(meaningsFile, &meanings); err != nil {
		return err
	}
	shown := 0
	for _, s := range all {
		if !strings.Contains(s.Key, word) {
			continue
		}
		fmt.Printf("%s=%s\n    %s\n", s.Key, s.Value, cmp.Or(meanings[s.Field], "see "+path.Base(s.Field)))
		shown++
	}
	if shown == 0 && word != "" {
		return usagef("%s has no setting with %q in its key", experiment.Name, word)
	}
	if shown == 0 {
		return fmt.Errorf("%s has no cells to read settings from; it needs the records of another experiment", experiment.Name)
	}
	return nil
}
