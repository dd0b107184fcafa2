package pretrain

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/study"
)

// table returns a table of the rows and columns with records.
func table(r study.Results) figures.Table {
	t := study.Table{
		Title:    "Training in two stages",
		Caption:  "A linear probe of frozen patch features and k-NN on [CLS] features, in %, of the online branch; on real images the recall over patches of PASCAL VOC, every class counting the same, and the effective rank of patch features. Both last rows begin alike and train as many steps on as many images. The paper has no such table.",
		RowHeads: []figures.RowHead{{Name: "encoder"}}, Least: 1,
	}
	for _, column := range []string{recipe.ColumnMIoU, recipe.ColumnKNN, recipe.ColumnRecall, recipe.ColumnNearestRecall, recipe.ColumnForegroundRecall, recipe.ColumnRank} {
		if slices.Contains(r.Columns(), column) {
			t.Columns = append(t.Columns, study.Column{Head: column})
		}
	}
	for _, name := range []string{recipe.RowRandom, recipe.RowInit, recipe.RowAlignment, recipe.RowControl, recipe.RowMethod} {
		t.Rows = append(t.Rows, study.Row{Key: name, Heads: []string{name}})
	}
	return t.Of(r)
}

// Encoder returns the file of an encoder of the last recorded run with a seed: after the stage "first" or "second", of the "target" or the "online"
// branch, or the "best" encoder of the online branch if the images have labels. A run without records is an error.
func Encoder(r study.Results, out string, seed int, stage, branch string) (string, error) {
	last, err := trained(r, seed)
	if err != nil {
		return "", err
	}
	return filepath.Join(filepath.Dir(recipe.EncoderFile(out, last, stage)), branch+".safetensors"), nil
}

// trained is a record of the full method of the last recorded run with a seed.
func trained(r study.Results, seed int) (last study.Record, err error) {
	for _, column := range []string{recipe.ColumnMIoU, recipe.ColumnRank} { // With labels, and without.
		if record, ok := r.OfSeed(recipe.RowMethod, column, seed); ok && record.Finished.After(last.Finished) {
			last = record
		}
	}
	if last.Curve == "" {
		return last, fmt.Errorf("no run of %s with seed %d is recorded in profile %s", Name, seed, r.Profile)
	}
	return last, nil
}

// Trained returns the file of the best encoder that runs have left under out, and what it is: the online branch of the full method, in the largest profile,
// with seed 0. Both are empty without such a run.
func Trained(out string) (file, name string) {
	for _, profile := range []study.Profile{study.Full, study.Quick, study.Smoke} {
		results, err := Study.Load(study.Options{Out: out, Profile: profile})
		if err != nil {
			continue
		}
		file, err := Encoder(results, out, 0, "second", "online")
		if err != nil {
			continue
		}
		if _, err := os.Stat(file); err == nil {
			return file, fmt.Sprintf("%s, %s profile", Name, profile)
		}
	}
	return "", ""
}
