package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/semcon/semcon/sccore/experiments"
	"github.com/semcon/semcon/sccore/study"
)

var updateSettings = flag.Bool("update", false, "write settings.json and docs/cli.md")

const modulePath = "github.com/semcon/semcon/"

// TestSettingsHaveTheMeaningsOfTheirComments: settings.json has the comment of the field behind every setting of every experiment.
func TestSettingsHaveTheMeaningsOfTheirComments(t *testing.T) {
	meanings, folders := map[string]string{}, map[string]map[string]string{}
	for _, e := range experiments.All() {
		for _, profile := range []study.Profile{study.Smoke, study.Quick} {
			for _, dataset := range []string{"", "synthetic", "coco", "images", "cifar10", "davis", "imagenet", "voc2012", "camvid"} {
				o := study.Options{Profile: profile, Seeds: 1, Out: t.TempDir()}
				if dataset != "" && dataset != "synthetic" {
					o.Data = "data"
				}
				all, err := settingsOfCells(e, o, dataset)
				if err != nil {
					continue // The experiment does not have the dataset.
				}
				for _, s := range all {
					if meanings[s.Field] != "" {
						continue
					}
					name := strings.TrimPrefix(s.Field, modulePath)
					dot := strings.Index(name, ".")
					if dot < 0 || !strings.HasPrefix(s.Field, modulePath) {
						t.Errorf("%s is of another module: %s", s.Key, s.Field)
						continue
					}
					folder := name[:dot]
					if folders[folder] == nil {
						folders[folder] = commentsOf(t, filepath.Join("../..", folder))
					}
					meanings[s.Field] = folders[folder][name[dot+1:]]
					if why := whyUnreadable(name[strings.LastIndex(name, ".")+1:], meanings[s.Field]); why != "" {
						t.Errorf("%s of %s: the meaning %q of field %s %s", s.Key, e.Name, meanings[s.Field], s.Field, why)
					}
				}
			}
		}
	}
	var want bytes.Buffer
	encoder := json.NewEncoder(&want)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "\t")
	if err := encoder.Encode(meanings); err != nil {
		t.Fatal(err)
	}
	if *updateSettings {
		if err := os.WriteFile("settings.json", want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !bytes.Equal(want.Bytes(), meaningsFile) {
		t.Error("settings.json is not what the comments say; \"go test ./cmd/semcon -run SettingsHave -update\" writes it")
	}
}

func TestSettingsAndVersion(t *testing.T) {
	m := newMachine(t)
	for _, c := range []struct {
		status int
		want   string
		args   []string
	}{
		{0, "rate=0.12 or 0.03 or 0.08 or 0.25\n", []string{"settings", "effect-aug"}},
		{0, "pretrain, profile quick: keys of --set, their defaults and what they mean\nWhere a group ", []string{"settings", "pretrain"}},
		{0, "lists all its keys.\n\ninit=", []string{"settings", "pretrain"}},
		{0, "second.*=first.*\n    The same keys with the same defaults, but for those that follow.\nsecond.prototypes=16\n", []string{"settings", "pretrain"}},
		{0, "second.bf16=false\n", []string{"settings", "pretrain", "second."}},
		{0, "second.lambdas.", []string{"settings", "pretrain", "lambdas"}},
		{0, "sample.per_image=16\n    The most patches drawn from each; 0 takes all.", []string{"settings", "noise-rate"}},
		{0, "sample.per_image=8\n", []string{"settings", "noise-rate", "--profile", "smoke"}},
		{0, "train, of 1000 images from random weights: keys of --set, ", []string{"settings", "train"}},
		{0, "\nlambdas.patch_concentration=", []string{"settings", "train", "lambdas"}},
		{0, "engine ", []string{"version"}},
		{2, `no setting with "nothing"`, []string{"settings", "pretrain", "nothing"}},
		{2, "want the name of one experiment", []string{"settings"}},
		{2, "a setting is --set second.batch=4", []string{"run", "pretrain", "--set", "second.steps=4", "second.batch=4"}},
		{2, "unexpected", []string{"version", "all"}},
	} {
		stdout, stderr, status := outcome(t, onGo(semcon(t, m, c.args...)))
		if status != c.status || !strings.Contains(stdout+stderr, c.want) {
			t.Errorf("%v: exit status %d: %.300s%s", c.args, status, stdout, stderr)
		}
	}
}

// TestNothingThatDiffersIsLeftOut puts the groups that are left out back and compares.
func TestNothingThatDiffersIsLeftOut(t *testing.T) {
	for name, most := range map[string]int{"pretrain": 90, "teacher-quality": 90, "ablation": 100, "extended-training": 140} {
		e, _, err := experiments.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		all, err := defaults(e, study.Quick, "")
		if err != nil {
			t.Fatal(err)
		}
		kept := whatDiffers(all)
		if len(kept) > most {
			t.Errorf("%s: lists %d of %d settings, want at most %d", name, len(kept), len(all), most)
		}
		shown, order := map[string]string{}, []string(nil)
		for _, s := range kept {
			if group, ok := strings.CutSuffix(s.Key, "*"); ok {
				for _, key := range slices.Clone(order) {
					if rest, ok := strings.CutPrefix(key, strings.TrimSuffix(s.Value, "*")); ok {
						shown[group+rest], order = shown[key], append(order, group+rest)
					}
				}
			} else {
				shown[s.Key], order = s.Value, append(order, s.Key)
			}
		}
		for _, s := range all {
			if shown[s.Key] != s.Value {
				t.Errorf("%s: %s is %s, and by what is listed %s", name, s.Key, s.Value, shown[s.Key])
			}
			delete(shown, s.Key)
		}
		for key := range shown {
			t.Errorf("%s has no %s", name, key)
		}
	}
}

// TestEveryExperimentListsItsSettings leaves out theory, whose cells are the records of another experiment.
func TestEveryExperimentListsItsSettings(t *testing.T) {
	for _, e := range experiments.All() {
		for _, profile := range []study.Profile{study.Smoke, study.Quick, study.Full} {
			if e.Name == "theory" {
				continue
			}
			if all, err := defaults(e, profile, ""); err != nil || len(all) < 2 {
				t.Errorf("%s in %s: %d settings, %v", e.Name, profile, len(all), err)
			}
		}
	}
}

// TestSettingsInAFile: the printed file changes nothing, an edited one does, and --set goes before it.
func TestSettingsInAFile(t *testing.T) {
	m := newMachine(t)
	printed, _, status := outcome(t, semcon(t, m, "settings", "noise-tolerance", "--profile", "smoke", "--format", "yaml"))
	if status != 0 || !strings.Contains(printed, "\n# steps: ") {
		t.Fatalf("exit status %d: %s", status, printed)
	}
	file := filepath.Join(t.TempDir(), "mine.yaml")
	cells := func(content string, args ...string) string {
		if err := os.WriteFile(file, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
		out, stderr, status := outcome(t, semcon(t, m, append([]string{"submit", "slurm", "noise-tolerance", "--profile", "smoke", "--config", file}, args...)...))
		if status != 0 {
			t.Fatalf("exit status %d: %s", status, stderr)
		}
		job, err := os.ReadFile(filepath.Join(m.Checkout, "out", "noise-tolerance", "job.sbatch"))
		if err != nil {
			t.Fatal(err, out)
		}
		return string(job)
	}
	if job := cells(printed); strings.Contains(job, "--set") {
		t.Errorf("the printed file sets something: %s", job)
	}
	edited := strings.Replace(printed, "# steps: ", "steps: 3 #", 1)
	if job := cells(edited, "--set", "steps=2"); !strings.Contains(job, "--set steps=3 --set steps=2") {
		t.Errorf("want the file's setting before --set: %s", job)
	}
	for content, want := range map[string]string{"steps: [": "mine.yaml: is no YAML of settings: yaml: line 1", "speed: 1": `"speed"`} {
		if err := os.WriteFile(file, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
		_, stderr, status := outcome(t, semcon(t, m, "run", "noise-tolerance", "--profile", "smoke", "--config", file))
		if wantLine(t, stderr, want); status != 2 {
			t.Errorf("%q: exit status %d", content, status)
		}
	}
}

func TestAssignmentsOfAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mine.yaml")
	content := "steps: 3\nsecond:\n  lambdas: {patch_alignment: 0.5}\n  rate: 1e-5\nrates: [0.1, 2]\nname: a b\nbf16: true\ninit:\n"
	if err := os.WriteFile(file, []byte(content), 0o666); err != nil {
		t.Fatal(err)
	}
	set, err := readConfig(file)
	want := []string{"steps=3", "second.lambdas.patch_alignment=0.5", "second.rate=0.00001", "rates=[0.1,2]", "name=a b", "bf16=true", "init="}
	if err != nil || !slices.Equal(set, want) {
		t.Errorf("%q, %v, want %q", set, err, want)
	}
	if _, err := readConfig(t.TempDir()); err == nil {
		t.Error("a folder is no error")
	}
}
