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
		next := 0 // Where a key that only some cells have goes: behind the one before it.
		for _, s := range listed {
			if strings.HasSuffix(parent(s.Field), "encoders.Encoder") { // --set weights.ROW=FILE decides it.
				continue
			}
			place := slices.IndexFunc(all, func(other settings.Setting) bool { return other.Key == s.Key })
			if place < 0 {
				place = next
				all = slices.Insert(all, place, s)
			} else if values := &all[place].Value; !slices.Contains(strings.Split(*values, or), s.Value) {
				*values += or + s.Value
			}
			next = place + 1
		}
	}
	return all, nil
}

// parent is a name in dots without its last part: the group of a key, or the struct of a field.
func parent(name string) string { return name[:max(0, strings.LastIndexByte(name, '.'))] }

// whatDiffers leaves out what repeats: a stage of a training has the keys of the one before it, and mostly its defaults. Of a group whose fields are those of an
// earlier group, such as second. after first., it keeps a line second.*=first.* and the keys whose defaults differ.
func whatDiffers(all []settings.Setting) (kept []settings.Setting) {
	structs, values, repeats := map[string]string{}, map[string]string{}, map[string]string{}
	for _, s := range all {
		structs[parent(s.Key)] = parent(s.Field)
	}
	var groups []string
	for _, s := range all {
		group, earlier := "", ""
		for at, c := range s.Key {
			if c != '.' || earlier != "" {
				continue
			}
			if group = s.Key[:at]; !slices.Contains(groups, group) {
				for _, other := range groups { // The latest counts.
					if structs[group] != "" && structs[other] == structs[group] {
						repeats[group] = other
					}
				}
				if groups = append(groups, group); repeats[group] != "" {
					kept = append(kept, settings.Setting{Key: group + ".*", Value: repeats[group] + ".*"})
				}
			}
			earlier = repeats[group]
		}
		if value, ok := values[earlier+s.Key[len(group):]]; earlier == "" || !ok || value != s.Value {
			kept = append(kept, s)
		}
		values[s.Key] = s.Value
	}
	return kept
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

// isGroup reports whether a setting is a group that [whatDiffers] has left out.
func isGroup(s settings.Setting) bool { return s.Field == "" }

func settingsVerb() *cobra.Command {
	c := &cobra.Command{
		Use: "settings EXPERIMENT [WORD]", Short: "list what --set changes of an experiment: keys, their defaults, what they mean; with a WORD every key that has it",
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
		if all = slices.DeleteFunc(all, func(s settings.Setting) bool { return !strings.Contains(s.Key, settings.Key(word)) }); len(all) == 0 {
			return usagef("%s has no setting with %q in its key", experiment.Name, word)
		}
		if word == "" {
			all = whatDiffers(all)
		}
		if i := slices.IndexFunc(all, isGroup); i >= 0 {
			header += fmt.Sprintf("Where a group of keys repeats an earlier one, as %s, only what differs is listed. \"semcon settings %s %s\" lists all its keys.\n",
				all[i].Key, experiment.Name, strings.TrimSuffix(all[i].Key, "*"))
		}
		fmt.Println(header)
		for _, s := range all {
			meaning := cmp.Or(meanings[s.Field], "see "+path.Base(s.Field))
			if isGroup(s) {
				meaning = "The same keys with the same defaults, but for those that follow."
			}
			if s.Allowed != "" {
				meaning += "\n    Allowed: " + s.Allowed
			}
			fmt.Printf("%s=%s\n    %s\n", s.Key, s.Value, meaning)
		}
		return nil
	}
	return c
}
