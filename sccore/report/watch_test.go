package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/study"
)

// lay writes files, all of them long ago, below a folder.
func lay(t *testing.T, files map[string]string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	for name, content := range files {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		ago := time.Now().Add(-time.Hour)
		if err := os.Chtimes(path, ago, ago); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// TestRunsOfACopiedFolder: their states, names and curves come from files alone, and nothing is written.
func TestRunsOfACopiedFolder(t *testing.T) {
	folder := lay(t, map[string]string{
		"pretrain/cells/synthetic/seed0-0123456789ab/lock":               "",
		"pretrain/cells/synthetic/seed0-0123456789ab/first/curve.jsonl":  `{"step":2,"total":3.5,"rate":0.1,"patches":{"rank":4}}` + "\n" + `{"step":4,"total":3,"rate":0.1,"patches":{"ra`,
		"pretrain/cells/synthetic/seed0-0123456789ab/second/curve.jsonl": `{"step":2,"total":2.5,"evaluated":{"knn/accuracy":20}}` + "\n" + `{"step":4,"total":2,"evaluated":{"knn/accuracy":30}}` + "\n",
		"effect-aug/cells/a/seed0-0123456789ab/lock":                     "",
		"effect-aug/cells/a/seed0-0123456789ac/lock":                     "",
		"effect-aug/cells/a/seed0-0123456789ac/failure":                  "the loss diverged",
		"effect-aug/runs.jsonl.lock":                                     "",
		"ablation/cells/seed1-0123456789ab/line5/lock":                   "",
		"ablation/cells/seed1-0123456789ab/first/lock":                   "",
		"transfer/cells/voc/first/seed1-0123456789ab/lock":               "",
		"train/photos/lock":                                              "",
		"train/photos/progress.json":                                     `{"title":"train","done":3,"tot`,
		"train/photos/checkpoints/step-000000003.safetensors":            "",
		"train/photos/metrics.csv":                                       "step,loss,cosine\n0,,1\n3,9.5,0.9\n6,9.5,0.",
	})
	runs, err := Runs(folder)
	if err != nil || len(runs) != 7 {
		t.Fatal(runs, err)
	}
	of := map[string]Run{}
	for _, r := range runs {
		of[r.Name] = r
	}
	for name, want := range map[string]study.State{
		"pretrain/synthetic/seed0": study.Done, "effect-aug/a/seed0-0123456789ab": study.Done, "effect-aug/a/seed0-0123456789ac": study.Failed, "ablation/line5/seed1": study.Done,
		"ablation/stage1/seed1": study.Done, "transfer/voc/first/seed1": study.Done, "train/photos": study.Stopped,
	} {
		if of[name].State != want {
			t.Errorf("%s is %q, want %q", name, of[name].State, want)
		}
	}
	if runs[0].State != study.Failed || runs[1].State != study.Stopped {
		t.Errorf("they begin with %+v", runs[:2])
	}

	// The line that is cut off is left out, and what never changes too.
	text := CurvesText("", Curves(of["pretrain/synthetic/seed0"]))
	for _, want := range []string{"total                   first   3.5  █   3.5\n", "second  2.5  ▃▁  2\n", "evaluated.knn/accuracy  second  20", "patches.rank            first   4"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Index(text, "total") > strings.Index(text, "evaluated") || strings.Contains(text, "epoch") {
		t.Errorf("curves are\n%s", text)
	}
	both := Curves(of["train/photos"], of["pretrain/synthetic/seed0"])
	looks := map[string]int{}
	for _, c := range both {
		for _, s := range c.Series {
			if known := looks[s.Name]; s.Look == 0 || known != 0 && known != s.Look {
				t.Errorf("series %q of %s has look %d, elsewhere %d", s.Name, c.Y, s.Look, known)
			}
			looks[s.Name] = s.Look
		}
	}
	if len(looks) != 3 || looks["A"] != 1 || looks["B second"] != 3 {
		t.Errorf("looks are %v", looks)
	}
	if _, _, err := figures.Render(figures.CurvesRow(both[:3])); err != nil {
		t.Error(err)
	}

	// A folder of one run, and one that is not there.
	if one, err := Runs(filepath.Join(folder, "train/photos")); err != nil || len(one) != 1 || one[0].Name != "photos" {
		t.Error(one, err)
	}
	if none, err := Runs(filepath.Join(folder, "later")); err != nil || len(none) != 0 {
		t.Error(none, err)
	}
}
