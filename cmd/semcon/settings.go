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

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore/experiments"
	"github.com/semcon/semcon/sccore/ownimages"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v2"
)

// meaningsFile has the comments of the fields of configurations, by [settings.Setting].Field. The test of this verb writes and holds it.
//
//go:embed settings.json
var meaningsFile []byte

// or stands between the values of a setting that differs between runs.
const or = " or "

// settingsOfCells lists the settings of an experiment in a profile, each once, and the dataset whose defaults they are. What differs between cells, such as the
// rate of a method, has all its values, with [or] between them.
func settingsOfCells(e study.Experiment, o study.Options, dataset string) (all []settings.Setting, err error) {
	defer try.Handle(&err)
	for _, cell := range try.E1(e.Cells(o, dataset)) {
		next := 0 // Where a key that only some cells have goes: behind the one before it.
		for _, s := range try.E1(settings.List(cell.Config)) {
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

// whatDiffers leaves out what repeats: a stage of a training has the keys of the one before it, and mostly its defaults. If a group has the fields of an
// earlier group, as second. has those of first., it keeps a line second.*=first.*, a setting without a field, and the keys whose defaults differ.
func whatDiffers(all []settings.Setting) (kept []settings.Setting) {
	structs := lo.SliceToMap(all, func(s settings.Setting) (group, of string) { return parent(s.Key), parent(s.Field) })
	values, repeats, groups := map[string]string{}, map[string]string{}, []string(nil)
	for _, s := range all {
		group, earlier := "", ""
		for at, c := range s.Key {
			if c != '.' || earlier != "" {
				continue
			}
			if group = s.Key[:at]; !slices.Contains(groups, group) {
				if structs[group] != "" {
					repeats[group], _, _ = lo.FindLastIndexOf(groups, func(other string) bool { return structs[other] == structs[group] })
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

// defaults lists the settings of an experiment in a profile. Without a dataset they apply to synthetic images, and in real and full, which have no such images, to
// the experiment's first dataset. Files of weights that these start from need not be there.
func defaults(e study.Experiment, profile study.Profile, dataset string) (all []settings.Setting, err error) {
	datasets := []string{dataset}
	switch {
	case dataset != "":
	case e.GeneratesData:
	case profile == study.Full || profile == study.Real:
		datasets = []string{"cifar10", "images", "imagenet", "coco", "voc2012", "davis"}
	default:
		datasets = []string{"synthetic"}
	}
	starts := lo.Ternary(profile == study.Full || profile == study.Real, [][]string{{"init=FILE"}, {"weights=" + os.DevNull}, nil}, [][]string{nil})
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

// maxConfig is the largest file of settings that is read, in bytes.
const maxConfig = 1 << 20

// readConfig reads assignments from a YAML file of keys and values. A key may have groups of keys below it.
func readConfig(file string) (set []string, err error) {
	defer try.Handle(&err)
	if info := try.E1(os.Stat(file)); !info.Mode().IsRegular() || info.Size() > maxConfig {
		return nil, fmt.Errorf("want a file of at most %d bytes", maxConfig)
	}
	var config yaml.MapSlice
	err = yaml.Unmarshal(try.E1(os.ReadFile(file)), &config)
	fail(err != nil, "is no YAML of settings: %s", strings.Join(strings.Fields(fmt.Sprint(err)), " "))
	var assign func(prefix string, group yaml.MapSlice)
	assign = func(prefix string, group yaml.MapSlice) {
		for _, item := range group {
			fail(item.Key == "" || item.Key == nil, "a key below %q is empty", prefix)
			key := prefix + fmt.Sprint(item.Key)
			switch value := item.Value.(type) {
			case yaml.MapSlice:
				assign(key+".", value)
			case string:
				set = append(set, key+"="+value)
			case nil:
				set = append(set, key+"=")
			default:
				encoded, err := json.Marshal(value)
				fail(err != nil, "%s: %w", key, err)
				set = append(set, key+"="+string(encoded))
			}
		}
	}
	assign("", config)
	return set, nil
}

// settingsOf lists the settings of the experiment that names has, or of the verb train, with its name and what the defaults are of.
func settingsOf(names []string, profile study.Profile, dataset string) (name, title string, all []settings.Setting) {
	if len(names) == 1 && names[0] == "train" {
		const images = 1000
		config := try.E1(ownimages.Start{Smoke: profile == study.Smoke}.Config(images, images))
		return "train", fmt.Sprintf("of %d images from random weights", images), try.E1(settings.List(config))
	}
	e, _ := oneExperiment(names)
	all = try.E1(defaults(e, profile, dataset))
	fail(len(all) == 0, "%s has no cells to read settings from; it needs the records of another experiment", e.Name)
	return e.Name, fmt.Sprintf("profile %s", profile), all
}

// completeSettings makes the shell complete the keys of --set of the experiment that the command line names, or of the verb train.
func completeSettings(c *cobra.Command) {
	try.E(c.RegisterFlagCompletionFunc("set", func(c *cobra.Command, names []string, _ string) (keys []string, how cobra.ShellCompDirective) {
		if c.Name() == "train" {
			names = []string{"train"}
		}
		profile, _ := study.ParseProfile(c.Flag("profile").Value.String())
		_ = ended(func() { // Without an experiment there are no keys.
			_, _, all := settingsOf(names, profile, "")
			keys = lo.Map(all, func(s settings.Setting, _ int) string { return s.Key + "=\t" + s.Value })
		})
		return keys, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	}))
}

func settingsVerb(c *cobra.Command, flags flagTexts) {
	completeExperiments(c, "train")
	var f struct {
		Profile         study.Profile
		Dataset, Format string
	}
	flags.bind(c, &f)
	c.Run = func(_ *cobra.Command, names []string) {
		word := ""
		if len(names) == 2 {
			names, word = names[:1], names[1]
		}
		if len(names) == 1 && names[0] != "train" {
			_, _, err := experiments.Find(names[0])
			refuse(err != nil, "%v; for keys with a word: semcon settings EXPERIMENT WORD", err)
		}
		name, title, all := settingsOf(names, f.Profile, f.Dataset)
		var meanings map[string]string
		try.E(json.Unmarshal(meaningsFile, &meanings))
		header := fmt.Sprintf("%s, %s: keys of --set, their defaults and what they mean\n", name, title)
		if slices.ContainsFunc(all, func(s settings.Setting) bool { return strings.Contains(s.Value, or) }) {
			header += "Where runs differ, all values are shown, with \"or\" between them. --set KEY=VALUE sets them for all runs.\n"
		}
		all = slices.DeleteFunc(all, func(s settings.Setting) bool { return !strings.Contains(s.Key, settings.Key(word)) })
		refuse(len(all) == 0, "%s has no setting with %q in its key", name, word)
		switch {
		case f.Format == "json":
			printAs("json", "", lo.Map(all, func(s settings.Setting, _ int) map[string]string {
				return map[string]string{"key": s.Key, "default": s.Value, "allowed": s.Allowed, "meaning": meanings[s.Field]}
			}))
			return
		case f.Format == "yaml":
			command := lo.Ternary(name == "train", "train IMAGES", "run "+name)
			fmt.Printf("# Settings of %s, %s. Take the # away from a key to change it: semcon %s --config FILE\n", name, title, command)
			for _, s := range all {
				fmt.Printf("\n# %s\n# %s: %s\n", strings.ReplaceAll(meanings[s.Field], "\n", " "), s.Key, s.Value)
			}
			return
		case word == "":
			all = whatDiffers(all)
		}
		if i := slices.IndexFunc(all, func(s settings.Setting) bool { return s.Field == "" }); i >= 0 {
			header += fmt.Sprintf("Where a group of keys repeats an earlier one, as %s, only what differs is listed. \"semcon settings %s %s\" lists all its keys.\n",
				all[i].Key, name, strings.TrimSuffix(all[i].Key, "*"))
		}
		fmt.Println(header)
		for _, s := range all {
			meaning := lo.Ternary(s.Field == "", "The same keys with the same defaults, but for those that follow.", cmp.Or(meanings[s.Field], "see "+path.Base(s.Field)))
			if s.Allowed != "" {
				meaning += "\n    Allowed: " + s.Allowed
			}
			fmt.Printf("%s=%s\n    %s\n", s.Key, s.Value, meaning)
		}
	}
}
