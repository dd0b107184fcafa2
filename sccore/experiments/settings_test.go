package experiments

import (
	"encoding/json"
	"errors"
	"maps"
	"math"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore/experiments/effectaug"
	"github.com/semcon/semcon/sccore/experiments/extendedtraining"
	"github.com/semcon/semcon/sccore/experiments/finetuning"
	"github.com/semcon/semcon/sccore/experiments/theory"
	"github.com/semcon/semcon/sccore/experiments/transfer"
	"github.com/semcon/semcon/sccore/methods"
	"github.com/semcon/semcon/sccore/recipe/augmentation"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
)

// largestSetting is what no setting may exceed: products of two still fit in an int.
const largestSetting = math.MaxInt32

// TestEverySettingHasBounds sets every numeric setting of every experiment, one at a time, to numbers without sense. Each is refused in one line that names
// the setting, or it is accepted, and then the largest number that is accepted for it is not beyond largestSetting. What arrays of several settings may
// take is bounded by [settings.Fit] where the settings are checked.
func TestEverySettingHasBounds(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(800)) // Listing cells leaves much garbage and holds little: 90 MB for a quarter of the CPU time.
	walked := 0
	for _, e := range All() {
		datasets := netDatasets[e.Name][study.Quick]
		if e.Name == theory.Name {
			datasets = []string{"synthetic"}
		}
		if len(datasets) == 0 {
			t.Errorf("%s: which datasets?", e.Name)
		}
		for _, dataset := range datasets {
			t.Run(e.Name+"/"+dataset, func(t *testing.T) { walked += walkSettings(t, e, dataset) })
		}
	}
	if walked < 500 {
		t.Errorf("%d settings, want the settings of all experiments", walked)
	}
}

// opened returns the error of opening the data that cells of a call share, those whose names hold only.
func opened[C comparable, D study.Data](t *testing.T, s study.Spec[C, D], dataset, only string, set ...string) error {
	t.Helper()
	options := study.Options{Profile: study.Smoke, Seeds: 1, Set: set}
	cells, err := s.Cells(options, dataset)
	if err != nil {
		t.Fatal(err)
	}
	cells = lo.Filter(cells, func(c study.Cell[C], _ int) bool { return strings.Contains(c.Name(), only) })
	_, err = s.Open(options, dataset, cells)
	return err
}

// TestSharedImagesHaveOneSetting: data are opened once for all heads and baselines of a seed, so that what they depend on cannot be set for one of them, unless it runs alone.
func TestSharedImagesHaveOneSetting(t *testing.T) {
	for set, of := range map[string]func(only string, set ...string) error{
		"fcn.images=20":    func(only string, set ...string) error { return opened(t, transfer.Study, "synthetic", only, set...) },
		"linear.holdout=2": func(only string, set ...string) error { return opened(t, transfer.Study, "synthetic", only, set...) },
		"fpn.images=20":    func(only string, set ...string) error { return opened(t, finetuning.Study, "synthetic", only, set...) },
		"mugs.images=40":   func(only string, set ...string) error { return opened(t, extendedtraining.Study, "", only, set...) },
		"ibot.images=30":   func(only string, set ...string) error { return opened(t, extendedtraining.Study, "", only, set...) },
	} {
		prefix, assignment, _ := strings.Cut(set, ".")
		key, _, _ := strings.Cut(assignment, "=")
		if err := of("", set); err == nil || !strings.Contains(err.Error(), "--set "+key+": runs of one call share what depends on it") {
			t.Errorf("--set %s: %v", set, err)
		}
		if err := errors.Join(of("", assignment), of(prefix+"/", set), of("")); err != nil {
			t.Errorf("--set %s alone, for all and left out: %v", set, err)
		}
	}
	if err := opened(t, extendedtraining.Study, "", "", "mugs.own.rate=0.1"); err != nil {
		t.Errorf("no images depend on a rate: %v", err)
	}
	for name, options := range map[string]study.Options{
		"extended-training": {Profile: study.Quick, Data: "data", Seeds: 3, Set: []string{"shares=2"}},
		"over-dispersion":   {Profile: study.Real, Data: "data", Seeds: 3, Set: []string{"shares=2", "init=start.safetensors"}},
	} {
		e, _, err := Find(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Cells(options, "images"); err == nil || !strings.Contains(err.Error(), "3 seeds and 2 shares") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func walkSettings(t *testing.T, e study.Experiment, dataset string) (walked int) {
	options := study.Options{Profile: study.Quick, Out: t.TempDir(), Seeds: 1}
	if dataset != "" && dataset != "synthetic" {
		options.Data = "data"
	}
	if e.Name == theory.Name { // It evaluates recorded encoders.
		trained := study.Record{
			Experiment: effectaug.Name, Cell: "synthetic/simclr/" + string(augmentation.AllCrops) + "/seed0", Row: string(augmentation.AllCrops), Column: "synthetic objects/SimCLR", Profile: study.Quick,
			Config: study.EncodeConfig(augmentation.ProfileConfig(study.Quick, methods.SimCLR, false)),
		}
		if err := trained.Append(study.Folder(options.Out, effectaug.Name)); err != nil {
			t.Fatal(err)
		}
	}
	numbers, lists := map[string]int{}, map[string]bool{} // Keys with the number of their elements, and keys of lists.
	cells, err := e.Cells(options, dataset)
	if err != nil || len(cells) == 0 {
		t.Fatalf("%d cells, %v", len(cells), err)
	}
	for _, c := range cells {
		listed, err := settings.List(c.Config)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range listed {
			var list []float64
			var number float64
			switch {
			case json.Unmarshal([]byte(s.Value), &number) == nil && s.Value != "null":
				numbers[s.Key] = 1
			case json.Unmarshal([]byte(s.Value), &list) == nil && len(list) > 0:
				numbers[s.Key], lists[s.Key] = len(list), true
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(numbers)) {
		// set returns the error of a value.
		set := func(value string) error {
			t.Helper()
			if lists[key] {
				value = "[" + strings.Join(slices.Repeat([]string{value}, numbers[key]), ",") + "]"
			}
			changed := options
			changed.Set = append(slices.Clone(options.Set), key+"="+value)
			_, err := e.Cells(changed, dataset)
			if err == nil {
				return nil
			}
			names := strings.Split(key, ".") // The whole key, its end, or the group that it lies in.
			names = names[max(0, len(names)-2):]
			line := err.Error()
			if strings.Contains(line, "\n") || !slices.ContainsFunc(names, func(name string) bool { return strings.Contains(line, name) }) {
				t.Errorf("--set %s=%s: %q is not one line that names it", key, value, line)
			}
			return err
		}
		for _, value := range []string{"-1", "0", "1"} {
			_ = set(value) // Both are fine.
		}
		for _, value := range []string{"9223372036854775807", "-9223372036854775808", "1e300", "-1e300", "1e400", "NaN", "Inf", "-Inf", strconv.Itoa(4 * largestSetting)} {
			if err := set(value); err == nil {
				t.Errorf("--set %s=%s is accepted", key, value)
			}
		}
		walked++
	}
	return walked
}
