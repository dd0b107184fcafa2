package mainresults

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/encoders"
	"github.com/semcon/semcon/sccore/weights"
)

// Records of before had pictures cropped and then resized, and their configurations do not name the preprocessing. They are kept, but they are not shown
// beside records of now, and their runs run again.
func TestNumbersOfUnlikePreprocessingAreNotCompared(t *testing.T) {
	now, err := grid.Config(study.Quick, evaluation.ImageNet, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	before, bilinear := now, now
	before.Preprocessing = datasets.Preprocessing{}
	bilinear.Preprocessing.Interpolation = datasets.Bilinear
	if study.ConfigHash(before) == study.ConfigHash(now) || study.ConfigHash(bilinear) == study.ConfigHash(now) || now.measures().Protocol() == bilinear.measures().Protocol() {
		t.Error("preprocessing does not change the hash and the protocol")
	}
	record := func(config Config, row string, seed int, value float64) study.Record {
		config.Encoder.Row = row
		return study.Record{Profile: study.Quick, Cell: evaluation.ImageNet + "/" + row, Row: row, Column: titles[evaluation.ImageNet], Seed: seed, Value: value, Config: study.EncodeConfig(config), Data: "pictures"}
	}
	results, err := Study.Results([]study.Record{record(before, "random", 0, 10), record(before, "second", 0, 20), record(now, "random", 0, 30)}, study.Quick)
	if err != nil {
		t.Fatal(err)
	}
	if got := results.Values("random", titles[evaluation.ImageNet]); len(got) != 1 || got[0] != 30 {
		t.Errorf("values %v, want the current one", got)
	}
	if got := results.Values("second", titles[evaluation.ImageNet]); len(got) != 0 {
		t.Errorf("values %v of another preprocessing stand beside it", got)
	}
}

func TestPreprocessingIsASetting(t *testing.T) {
	configured := func(dataset string, set ...string) Config {
		t.Helper()
		c, err := grid.Config(study.Full, dataset, "", set)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	half := []string{"preprocessing.mean=[0.5,0.5,0.5]", "preprocessing.std=[0.5,0.5,0.5]", "preprocessing.crop_pct=0.9", "preprocessing.interpolation=bilinear"}
	if got, want := configured(evaluation.ImageNet, half...).measures().Protocol(), "shorter side resized to 248 px (bilinear), centre crop of 224 px, mean 0.5 0.5 0.5"; !strings.Contains(got, want) {
		t.Errorf("%q has no %q", got, want)
	}
	if configured(encoders.COCOStuff, half[2:]...) != configured(encoders.COCOStuff) {
		t.Error("how pictures to classify are cropped changes how they are segmented")
	}
	if got := configured(encoders.COCOStuff, half...).measures().Protocol(); !strings.HasSuffix(got, "; mean 0.5 0.5 0.5, deviation 0.5 0.5 0.5") {
		t.Errorf("protocol %q", got)
	}
	for set, want := range map[string]string{"preprocessing.crop_mode=whole": "crops of one size", "preprocessing.crop_pct=2": "crop_pct 2", "preprocessing.mean=[1,2]": "mean"} {
		if _, err := grid.Config(study.Full, evaluation.ImageNet, "", []string{set}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", set, err, want)
		}
	}
}

// TestColoursOfOtherMakers: the settings have to say what a file beside the weights says.
func TestColoursOfOtherMakers(t *testing.T) {
	_, store, err := evaluation.RandomViT("vit-tiny", 1)
	if err != nil {
		t.Fatal(err)
	}
	v, err := encoder.ViTByName("vit-tiny")
	if err != nil {
		t.Fatal(err)
	}
	file, half := filepath.Join(t.TempDir(), weights.ModelFile), datasets.DefaultPreprocessing()
	half.Mean, half.Std = [3]float64{0.5, 0.5, 0.5}, [3]float64{0.5, 0.5, 0.5}
	if err := errors.Join(weights.Export(file, weights.Timm, store, "/", v, nil, nil), weights.WriteConfig(file, weights.Timm, v, half, 32)); err != nil {
		t.Fatal(err)
	}
	set := []string{"weights.mine=" + file}
	for _, dataset := range []string{evaluation.ImageNet, encoders.COCOStuff} {
		o := study.Options{Profile: study.Quick, Data: "data", Seeds: 1, Set: set, Out: t.TempDir()}
		if _, err := Study.Cells(o, dataset); err == nil || !strings.Contains(err.Error(), "images have mean [0.5 0.5 0.5]") {
			t.Errorf("%s: %v", dataset, err)
		}
		o.Set = append(o.Set, "preprocessing.mean=[0.5,0.5,0.5]", "preprocessing.std=[0.5,0.5,0.5]")
		if cells, err := Study.Cells(o, dataset); err != nil || len(cells) != 2 {
			t.Errorf("%s: %d cells, %v", dataset, len(cells), err)
		}
	}
}
