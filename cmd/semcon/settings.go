package main

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
	"github.com/spf13/cobra"
)

// meaningsFile has the comments of the fields of configurations, by [settings.Setting].Field. The test of this verb writes and holds it.
//
//go:embed settings.json
var meaningsFile []byte

// or stands between the values of a setting that differs between runs.
const or = " or "

// settingsOfCells lists the settings of an experiment in a profile, each once, and the dataset whose defaults they are. What differs between cells, such as the
// rate of a method, has all its values, with [or] between them.
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
			place := slices.IndexFunc(all, func(other settings.Setting) bool { return other.Key == s.Key })
			if place < 0 {
				all = append(all, s)
			} else if values := &all[place].Value; !slices.Contains(strings.Split(*values, or), s.Value) {
				*values += or + s.Value
			}
		}
	}
	return all, nil
}

// defaults lists the settings of an experiment in a profile. Without a dataset they are those of synthetic images, and in full, which has none, of the
// experiment's first dataset. Files of weights that full starts from need not be there.
func defaults(e study.Experiment, profile study.Profile, dataset string) (all []settings.Setting, err error) {
	datasets := []string{dataset}
	switch {
	case dataset != "":
	case e.GeneratesData:
	case profile == study.Full:
		datasets = []string{"cifar10", "images", "imagenet", "coco", "davis"}
	default:
		datasets = []string{"synthetic"}
	}
	starts := [][]string{nil}
	if profile == study.Full {
		starts = [][]string{{"init=FILE"}, {"weights=" + os.DevNull}, nil}
	}
	for _, dataset := range datasets {
		options := study.Options{Profile: profile, Seeds: 1, Out: "out"}
		if dataset != "" && dataset != "synthetic" {
			options.Data = "data"
		}
		for _, options.Set = range starts {
			if all, err = settingsOfCells(e, options, dataset); err == nil {
				return all, nil
			}
		}
	}
	return nil, err
}

func settingsVerb() *cobra.Command {
	c := &cobra.Command{
		Use: "settings EXPERIMENT [WORD]", Short: "list what --set changes of an experiment: every key, its default, what it means",
		Example: "semcon settings pretrain\nsemcon settings pretrain second.lambdas --profile full",
	}
	completeExperiments(c, true)
	var profile study.Profile
	profileFlag(c, &profile, "whose defaults are shown")
	dataset := c.Flags().String("dataset", "", "`NAME` of the dataset whose defaults are shown, as in names of runs: coco, images; by default synthetic ones, in full the first")
	c.RunE = func(_ *cobra.Command, names []string) error {
		word := ""
		if len(names) == 2 {
			names, word = names[:1], names[1]
		}
		experiment, _, err := oneExperiment(names)
		check(err)
		all := must(defaults(experiment, profile, *dataset))
		if len(all) == 0 {
			return fmt.Errorf("%s has no cells to read settings from; it needs the records of another experiment", experiment.Name)
		}
		var meanings map[string]string
		check(json.Unmarshal(meaningsFile, &meanings))
		header := fmt.Sprintf("%s, profile %s: keys of --set, their defaults and what they mean\n", experiment.Name, profile)
		if slices.ContainsFunc(all, func(s settings.Setting) bool { return strings.Contains(s.Value, or) }) {
			header += "Where runs differ, all values are shown, with \"or\" between them. --set KEY=VALUE sets them for all runs.\n"
		}
		all = slices.DeleteFunc(all, func(s settings.Setting) bool { return !strings.Contains(s.Key, settings.Key(word)) })
		if len(all) == 0 {
			return usagef("%s has no setting with %q in its key", experiment.Name, word)
		}
		fmt.Println(header)
		for _, s := range all {
			meaning := cmp.Or(meanings[s.Field], "see "+path.Base(s.Field))
			if s.Allowed != "" {
				meaning += "\n    Allowed: " + s.Allowed
			}
			fmt.Printf("%s=%s\n    %s\n", s.Key, s.Value, meaning)
		}
		return nil
	}
	return c
}
