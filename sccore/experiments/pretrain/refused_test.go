package pretrain

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/study"
)

// TestPretrainRefusesWhatWouldChangeNothing gives settings that are recorded but not used, and a file that holds no weights. Nothing is left behind.
func TestPretrainRefusesWhatWouldChangeNothing(t *testing.T) {
	data, junk := t.TempDir(), filepath.Join(t.TempDir(), "junk.pth")
	writeImages(t, data, 10)
	if err := os.WriteFile(junk, []byte("junk"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, one := range []struct{ data, set, want string }{
		{"", "size=64", "size 64: synthetic images are encoded at their own size"},
		{"", "images=5", "images 5 is below the batch size or the number of neighbours; --set images=8 fits"},
		{data, "images=5", "images 5: only synthetic images have a number"},
		{"", "shares=2", "shares: synthetic images are drawn for each seed"},
		{"", "recall.size=32", `no key "recall"`},
		{data, "shares=0", "shares 0"},
		{data, "recall.size=33", "recall.size 33 is not a multiple of vit-32x3x4p8-grid6's patch size 8, want 32"},
		{data, "recall.least=0", "recall.least 0"},
		{"", "evaluate=centroid", "evaluate: evaluate_every is 0"},
		{"", "evaluate=centroids", `no evaluation "centroids"`},
		{"", "evaluate_every=2;evaluate=knn", "evaluate: knn runs already"},
		{"", "evaluate_every=2;evaluate=centroid,centroid", "evaluate: centroid runs already"},
		{"", "evaluate=lost", "semcon evaluate lost"},
		{"", "init=" + junk, "--set init=" + junk + ": " + junk + ": neither"},
	} {
		out := filepath.Join(t.TempDir(), "out")
		err := Study.Run(t.Context(), nil, study.Options{Profile: study.Smoke, Data: one.data, Out: out, Set: strings.Split(one.set, ";")})
		if wrong := (study.BadOption{}); !errors.As(err, &wrong) || !strings.Contains(err.Error(), one.want) {
			t.Errorf("--set %s: %v, want %q", one.set, err, one.want)
		}
		if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("--set %s leaves a folder", one.set)
		}
	}
}

// TestSeedsShareNoRealImage opens the images of two seeds: all of them, and no image twice.
func TestSeedsShareNoRealImage(t *testing.T) {
	dir := t.TempDir()
	writeImages(t, dir, 7)
	config := recipe.ProfileConfig(study.Smoke, true)
	config.Shares = 2
	seen, identity := map[string]bool{}, ""
	for seed := range 2 {
		d, err := recipe.Open(study.Options{Profile: study.Smoke, Data: dir}, config, seed)
		if err != nil {
			t.Fatal(err)
		}
		if seed > 0 && d.Identity() != identity {
			t.Errorf("the data of two seeds are %q and %q; they must group", d.Identity(), identity)
		}
		identity = d.Identity()
		for _, source := range []datasets.Source{d.Train.Objects, d.Train.Scenes} {
			pictures := source.(*datasets.ImageFolder)
			for i := range pictures.Len() {
				key := pictures.Name + "/" + pictures.File(i)
				if seen[key] {
					t.Errorf("%s counts for two seeds", key)
				}
				seen[key] = true
			}
		}
	}
	if len(seen) != 14 {
		t.Errorf("%d of 14 images are used", len(seen))
	}
	err := Study.Run(t.Context(), nil, study.Options{Profile: study.Smoke, Data: dir, Out: t.TempDir(), Seeds: 3, Set: []string{"shares=2"}})
	if err == nil || !strings.Contains(err.Error(), "3 seeds and 2 shares: each seed needs a share of its own; --set shares=3") {
		t.Errorf("a third seed: %v", err)
	}
	var warned []string
	config.Shares = 8
	d, err := recipe.Open(study.Options{Profile: study.Smoke, Data: dir, Warn: func(line string) { warned = append(warned, line) }}, config, 7)
	if err != nil || d.Train.Objects.Len() != 7 || strings.Contains(d.Identity(), "shares") || len(warned) != 2 || !strings.Contains(warned[0], "is too small for 8 shares: every seed has all of its images") {
		t.Errorf("eight shares of seven images: %v, warnings %q", err, warned)
	}
}
