package sccore_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/settings"
)

// taught is a configuration of patch alignment and a loss with a teacher.
func taught(loss string) sccore.Config {
	config := tiny()
	config.Prototypes, config.Lambdas = 0, losses.Lambdas{PatchAlignment: 1, PatchConcentration: 1}
	config.PatchConcentration, config.Correspondences.From = loss, sccore.FromTeacher
	config.Teacher = sccore.Teacher{Encoder: "vit-tiny", Head: config.PatchHead}
	return config
}

// TestEveryLossLearnsFromATeacher takes two steps with each loss: the teacher moves the online branch and stays what it is.
func TestEveryLossLearnsFromATeacher(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	b := onGo(t)
	alignment := tiny()
	alignment.Prototypes, alignment.Lambdas = 0, losses.Lambdas{PatchAlignment: 1}
	dir := t.TempDir()
	files := [2]string{filepath.Join(dir, "one.safetensors"), filepath.Join(dir, "two.safetensors")}
	maker := newTrainer(t, b, tinyData(), alignment)
	for i, file := range files {
		trained(t, maker, uint64(20+i), 1)
		if err := maker.Save(file, ""); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[float64]string{}
	for _, loss := range sccore.PatchConcentrations {
		trainer := newTrainer(t, b, tinyData(), taught(loss))
		var values [2]float64
		for i, file := range files {
			if err := trainer.Begin(1); err != nil {
				t.Fatal(err)
			}
			if err := trainer.SetTeacher(file); err != nil {
				t.Fatal(err)
			}
			before := diagnosticsOf(t, trainer)
			if !(before.Lengths.PatchConcentration > 0) && loss != sccore.WithFastAP && loss != sccore.WithSmoothAP {
				t.Errorf("%s has no gradient", loss)
			}
			values[i] = more(t, trainer, 2)[0].PatchConcentration
			if err := trainer.Begin(1); err != nil {
				t.Fatal(err)
			}
			if err := trainer.SetTeacher(file); err != nil {
				t.Fatal(err)
			}
			if after := diagnosticsOf(t, trainer); !slices.Equal(after.Pairs.Scores, before.Pairs.Scores) {
				t.Errorf("%s: the teacher has moved", loss)
			}
		}
		if loss == sccore.WithFastAP || loss == sccore.WithSmoothAP {
			continue // With the cosines of heads that have not learnt, all pairs are positives.
		}
		if values[0] == values[1] {
			t.Errorf("%s is %g with either teacher", loss, values[0])
		}
		if other, ok := seen[values[0]]; ok {
			t.Errorf("%s and %s are both %g", loss, other, values[0])
		}
		seen[values[0]] = loss
	}
	if err := newTrainer(t, b, tinyData(), alignment).SetTeacher(files[0]); err == nil || !strings.Contains(err.Error(), "has no teacher") {
		t.Errorf("a run without a teacher: %v", err)
	}
}

func TestTeacherAndLossesAreChecked(t *testing.T) {
	for want, change := range map[string]func(c *sccore.Config){
		`patch_concentration "guess"`: func(c *sccore.Config) { c.PatchConcentration = "guess" },
		"which correspondences.from labels does not have": func(c *sccore.Config) {
			c.PatchConcentration, c.Correspondences.From = sccore.WithGram, sccore.FromLabels
		},
		"teacher.encoder": func(c *sccore.Config) { c.Teacher.Encoder = "" },
		"patches are of":  func(c *sccore.Config) { c.Teacher.Encoder = "vit-s16" },
		"teacher.head":    func(c *sccore.Config) { c.Teacher.Head.OutDim = 0 },
	} {
		config := taught(sccore.WithPaKA)
		if err := settings.Check(config); err != nil {
			t.Fatal(err)
		}
		change(&config)
		if err := settings.Check(config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

// TestFixedNoiseIsThatOfThePair measures the labels' precision with noise that is fixed for each pair of places: the same after another step on the same
// images, and on the whole what noise that is drawn anew gives.
func TestFixedNoiseIsThatOfThePair(t *testing.T) {
	b := onGo(t)
	config := tiny()
	config.Prototypes, config.Lambdas = 0, losses.Lambdas{PatchAlignment: 1, PatchConcentration: 1}
	config.Correspondences = sccore.Correspondences{From: sccore.FromLabels, Noise: 0.6, Fixed: true}
	data := tinyData()
	objects, scenes := synthetic.Objects(4, 32, 1), synthetic.Scenes(4, 32, 2)
	data.Objects, data.Scenes = objects, scenes
	trainer := newTrainer(t, b, data, config)
	if err := trainer.Begin(1); err != nil {
		t.Fatal(err)
	}
	fixed := diagnosticsOf(t, trainer)
	count := 0
	for _, score := range fixed.Pairs.Scores {
		if score != 0 && score != 1 {
			count++
		}
	}
	if share := float64(count) / float64(len(fixed.Pairs.Scores)); share < 0.4 || share > 0.8 {
		t.Errorf("%.2f of the pairs have noise, want about 0.6", share)
	}
	config.Correspondences.Fixed = false
	anew := newTrainer(t, b, data, config)
	if err := anew.Begin(1); err != nil {
		t.Fatal(err)
	}
	if drawn := diagnosticsOf(t, anew); len(drawn.Pairs.Scores) != len(fixed.Pairs.Scores) || slices.Equal(drawn.Pairs.Scores, fixed.Pairs.Scores) {
		t.Error("fixed noise follows the step")
	}
	if again := diagnosticsOf(t, trainer); !slices.Equal(again.Pairs.Scores, fixed.Pairs.Scores) {
		t.Error("fixed noise changes")
	}
}
