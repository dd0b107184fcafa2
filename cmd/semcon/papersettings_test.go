package main

import (
	"encoding/csv"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/semcon/semcon/sccore/experiments"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
)

// fullDatasets are the datasets of each experiment in the full profile whose settings the page has.
var fullDatasets = map[string][]string{
	"effect-aug": {"cifar10"}, "noise-tolerance": {""}, "pretrain": {"images"}, "teacher-quality": {"voc2012"}, "ablation": {"images"}, "extended-training": {"images"},
	"main": {"imagenet", "coco"}, "transfer": {"coco", "voc2012", "ade20k", "cityscapes"}, "fine-tune": {"ade20k", "cityscapes", "coco", "voc2012"}, "detection": {"coco"},
	"video": {"davis"}, "noise-rate": {"coco", "voc2012"}, "over-dispersion": {"images"}, "patch-recall": {"voc2012"}, "centroid": {"coco"},
	"theory": nil, // It has the settings of effect-aug's runs.
}

// fullSettings lists the cells of an experiment in the full profile, each with its settings, and the number of seeds as the setting seeds.
func fullSettings(t *testing.T, e study.Experiment) (names []string, values []map[string]string, keys []string) {
	t.Helper()
	for _, dataset := range fullDatasets[e.Name] {
		o := study.Options{Profile: study.Full, Out: t.TempDir()}
		if dataset != "" && !e.GeneratesData {
			o.Data = "data"
		}
		var cells []study.CellInfo
		err := fmt.Errorf("no cells")
		for _, o.Set = range [][]string{{"init=FILE"}, {"weights=" + os.DevNull}, nil} {
			if cells, err = e.Cells(o, dataset); err == nil {
				break
			}
		}
		if err != nil {
			t.Fatalf("%s, %s: %v", e.Name, dataset, err)
		}
		seeds := map[string]bool{}
		for _, c := range cells {
			seeds[path.Base(c.Name)] = true
		}
		for _, c := range cells {
			if path.Base(c.Name) != "seed0" {
				continue
			}
			listed, err := settings.List(c.Config)
			if err != nil {
				t.Fatal(err)
			}
			of := map[string]string{"seeds": fmt.Sprint(len(seeds))}
			for _, s := range append(listed, settings.Setting{Key: "seeds"}) {
				if s.Key != "seeds" {
					of[s.Key] = strings.NewReplacer(os.DevNull, "FILE", "e3b0c44298fc1c14", "its SHA-256").Replace(s.Value)
				}
				if !slices.Contains(keys, s.Key) && !strings.HasPrefix(s.Key, "encoder.") {
					keys = append(keys, s.Key)
				}
			}
			names, values = append(names, c.Name), append(values, of)
		}
	}
	return names, values, keys
}

// TestSettingsOfThePaperAreDocumented: figures/paper/settings.csv has what the paper prints. The full profile has the same, or the file says why not; and docs/settings.md has the
// table of both, with all other settings of the profile behind it.
func TestSettingsOfThePaperAreDocumented(t *testing.T) {
	file, err := os.Open("../../figures/paper/settings.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	printed, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var page strings.Builder
	cell := strings.NewReplacer("|", `\|`, "*", `\*`, "[", `\[`, "\n", " ").Replace
	for _, e := range experiments.All() {
		if datasets, ok := fullDatasets[e.Name]; !ok {
			t.Errorf("add %s to fullDatasets: the datasets of its full profile, whose settings docs/settings.md lists", e.Name)
			continue
		} else if datasets == nil {
			continue
		}
		names, values, keys := fullSettings(t, e)
		fmt.Fprintf(&page, "\n### `%s`\n\n", e.Name)
		known, head := map[string]bool{}, "| setting | runs | printed | where | ours | why |\n|---|---|---|---|---|---|\n"
		for line, r := range printed[1:] {
			cells, key, value, text, place, why := r[1], r[2], r[3], r[4], r[5], r[6]
			if r[0] != e.Name {
				continue
			}
			known[key] = true
			var ours []string
			for i, name := range names {
				if value, ok := values[i][key]; ok && matchesParts(cells, name) && !slices.Contains(ours, value) {
					ours = append(ours, value)
				}
			}
			switch {
			case len(ours) != 1 && why == "" || len(ours) == 0:
				t.Errorf("settings.csv, line %d: %s of %s, runs %q, has the values %q", line+2, key, e.Name, cells, ours)
			case why == "" && ours[0] != value:
				t.Errorf("settings.csv, line %d: the paper prints %s for %s of %s, runs %q, and full has %s without a reason", line+2, text, key, e.Name, cells, ours[0])
			case why != "" && slices.Equal(ours, []string{value}):
				t.Errorf("settings.csv, line %d: %s of %s, runs %q, is %s as the paper prints it, and has a reason not to be", line+2, key, e.Name, cells, value)
			}
			fmt.Fprintf(&page, "%s| `%s` | %s | %s | %s | %s | %s |\n", head, key, cell(cells), cell(text), cell(place), cell(strings.Join(ours, or)), cell(why))
			head = ""
		}
		var rest []string
		for _, key := range keys {
			if known[key] {
				continue
			}
			var ours []string
			for i := range names {
				if value, ok := values[i][key]; ok && !slices.Contains(ours, value) {
					ours = append(ours, value)
				}
			}
			rest = append(rest, fmt.Sprintf("`%s=%s`", key, strings.Join(ours, or)))
		}
		if head == "" {
			page.WriteString("\n")
		}
		fmt.Fprintf(&page, "The paper does not state %s.\n", strings.Join(rest, ", "))
	}
	for line, r := range printed[1:] {
		if e, _, err := experiments.Find(r[0]); err != nil || e.Name != r[0] {
			t.Errorf("settings.csv, line %d: %v", line+2, err)
		}
	}
	const docs, begin, end = "../../docs/settings.md", "<!-- settings of full -->\n", "<!-- end -->\n"
	content, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	before, after, ok := strings.Cut(string(content), begin)
	_, after, closed := strings.Cut(after, end)
	if !ok || !closed {
		t.Fatalf("%s has no place for the table", docs)
	}
	want := before + begin + page.String() + end + after
	if *updateSettings {
		if err := os.WriteFile(docs, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(content) {
		t.Errorf("docs/settings.md is not what the full profile has; \"go test ./cmd/semcon -run Documented -update\" writes it")
	}
}

// matchesParts reports whether the first parts of a cell's name match the parts of a pattern; the empty pattern matches all.
func matchesParts(pattern, name string) bool {
	parts := strings.Split(name, "/")
	for i, part := range strings.Split(pattern, "/") {
		if ok, err := path.Match(part, parts[min(i, len(parts)-1)]); part != "" && (!ok || err != nil) {
			return false
		}
	}
	return true
}
