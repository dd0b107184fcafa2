package sccore_test

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/samber/lo"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/heads"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/views"
)

// taught is a configuration of patch alignment and a loss with a teacher.
func taught(loss string) sccore.Config {
	config := tiny()
	config.Prototypes, config.Lambdas = 0, losses.Lambdas{PatchAlignment: 1, PatchConcentration: 1}
	config.PatchConcentration, config.Correspondences.From = loss, sccore.FromTeacher
	config.Teacher = sccore.Teacher{Encoder: "vit-tiny", Head: config.PatchHead}
	return config
}

// TestEveryLossLearnsFromATeacher takes two steps with each loss of scores: the teacher moves the online branch and stays what it is.
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
		if sccore.ComparesFeatures(loss) {
			continue
		}
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
			if !(before.Lengths.PatchConcentration > 0) {
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

// TestTeacherWithoutAHead: an encoder's file is a teacher whose S_t compares patch tokens. At the start it scores pairs as the target branch's backbone of the same
// weights does.
func TestTeacherWithoutAHead(t *testing.T) {
	b, dir := onGo(t), t.TempDir()
	own := taught(sccore.WithCoTAP)
	own.Correspondences.From, own.Teacher = sccore.FromBackbone, sccore.Teacher{}
	trainer := newTrainer(t, b, tinyData(), own)
	trained(t, trainer, 20, 1)
	start, file := filepath.Join(dir, "start.safetensors"), filepath.Join(dir, "encoder.safetensors")
	if err := errors.Join(trainer.Save(start, ""), trainer.SaveEncoder(file, sccore.Online, nil)); err != nil {
		t.Fatal(err)
	}
	if err := trainer.BeginFrom(start, 1); err != nil {
		t.Fatal(err)
	}
	want := diagnosticsOf(t, trainer).Pairs.Scores
	headless := taught(sccore.WithCoTAP)
	teacher, err := sccore.TeacherOf(file)
	if err != nil || teacher.Head != (heads.Projector{}) {
		t.Fatalf("%+v, %v", teacher, err)
	}
	headless.Teacher = teacher
	trainer = newTrainer(t, b, tinyData(), headless)
	if err := errors.Join(trainer.BeginFrom(start, 1), trainer.SetTeacher(file)); err != nil {
		t.Fatal(err)
	}
	if got := diagnosticsOf(t, trainer).Pairs.Scores; !slices.Equal(got, want) {
		t.Errorf("%d scores differ from those of the backbone", len(lo.Filter(got, func(s float64, i int) bool { return s != want[i] })))
	}
	more(t, trainer, 2)
	filtered := newTrainer(t, b, tinyData(), tiny())
	trained(t, filtered, 20, 1)
	cut := filepath.Join(dir, "filtered.safetensors")
	if err := filtered.SaveEncoder(cut, sccore.Online, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := sccore.TeacherOf(cut); err == nil || !strings.Contains(err.Error(), "has an Object-Aware Filter") {
		t.Errorf("an encoder with a filter: %v", err)
	}
	withHead := newTrainer(t, b, tinyData(), taught(sccore.WithCoTAP))
	if err := errors.Join(withHead.Begin(1), withHead.SetTeacher(file)); err == nil || !strings.Contains(err.Error(), "it has no head of patches") {
		t.Errorf("an encoder for a teacher with a head: %v", err)
	}
}

// rival is a configuration of patch alignment and a loss of features in CoTAP's place, with a momentum of the target branch.
func rival(loss string, momentum float64) sccore.Config {
	config := tiny()
	config.Prototypes, config.Lambdas = 0, losses.Lambdas{PatchAlignment: 1, PatchConcentration: 1}
	config.PatchConcentration, config.TargetMomentum, config.FinalTargetMomentum = loss, momentum, momentum
	return config
}

// TestGramTeacherIsTheStart: without distortions of colour the loss is 0 at the first step, where the encoder is the Gram teacher. Later it does not see the
// target branch move, and a run that goes on from a checkpoint has the same Gram teacher.
func TestGramTeacherIsTheStart(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		plain := rival(sccore.WithGram, 1)
		for _, r := range []*views.Recipe{&plain.Views.Global, &plain.Views.Local} {
			r.Blur, r.Grayscale, r.Jitter = false, false, false
		}
		trainer := newTrainer(t, b, tinyData(), plain)
		values := func(momentum float64) (values [2]float64) {
			moving := plain
			moving.TargetMomentum, moving.FinalTargetMomentum = momentum, momentum
			if err := trainer.Configure(moving); err != nil {
				t.Fatal(err)
			}
			for i, m := range trained(t, trainer, 1, 2) {
				values[i] = m.PatchConcentration
			}
			return values
		}
		still, follows := values(1), values(0)
		if still[0] > 1e-12 || !(still[1] > 1e-9) || still != follows {
			t.Errorf("%g with a target branch that stays, %g with one that follows", still, follows)
		}
		distorted := newTrainer(t, b, tinyData(), rival(sccore.WithGram, 1)) // The Gram teacher sees no distortions.
		if got := trained(t, distorted, 1, 1)[0].PatchConcentration; !(got > 1e-6) {
			t.Errorf("%g with distortions", got)
		}

		file := filepath.Join(t.TempDir(), "two.safetensors")
		if err := trainer.Save(file, ""); err != nil {
			t.Fatal(err)
		}
		want := more(t, trainer, 1)[0]
		trained(t, trainer, 5, 1)
		if _, err := trainer.Resume(file); err != nil {
			t.Fatal(err)
		}
		if got := more(t, trainer, 1)[0]; got.PatchConcentration != want.PatchConcentration {
			t.Errorf("%g, resumed %g", want.PatchConcentration, got.PatchConcentration)
		}
		if err := trainer.BeginFrom(file, 3); err != nil { // The stage begins with what the file's run has learnt.
			t.Fatal(err)
		}
		if got := more(t, trainer, 1)[0].PatchConcentration; got > 1e-12 {
			t.Errorf("%g at the beginning of a stage from a file", got)
		}
	})
}

// TestLossesOfFeaturesLearnFromTheTargetBranch: unlike Gram anchoring, PaKA and NeCo see it move, and all three have a gradient from the first step on.
func TestLossesOfFeaturesLearnFromTheTargetBranch(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	b := onGo(t)
	for _, loss := range []string{sccore.WithPaKA, sccore.WithNeCo, sccore.WithGram} {
		trainer := newTrainer(t, b, tinyData(), rival(loss, 1))
		still := trained(t, trainer, 1, 2)
		if err := trainer.Configure(rival(loss, 0)); err != nil {
			t.Fatal(err)
		}
		if err := trainer.Begin(1); err != nil {
			t.Fatal(err)
		}
		if d := diagnosticsOf(t, trainer); !(d.Lengths.PatchConcentration > 0) || len(d.Pairs.Scores) == 0 {
			t.Errorf("%s: length %g, %d pairs", loss, d.Lengths.PatchConcentration, len(d.Pairs.Scores))
		}
		follows := more(t, trainer, 2)
		var values [4]float64
		for i, m := range append(still, follows...) {
			values[i] = m.PatchConcentration
		}
		if sees := values[1] != values[3]; sees != (loss != sccore.WithGram) || values[0] != values[2] {
			t.Errorf("%s: %g with a target branch that stays, %g with one that follows", loss, values[:2], values[2:])
		}
	}
}

// TestRivalsOfBeforeAreTakenForOthers: the JSON of a configuration, which records hash, tells how the losses of other authors are wired, and can be read
// without it.
func TestRivalsOfBeforeAreTakenForOthers(t *testing.T) {
	for _, loss := range append([]string{""}, sccore.PatchConcentrations...) {
		config := tiny()
		config.PatchConcentration = loss
		encoded, err := json.Marshal(config)
		if err != nil {
			t.Fatal(err)
		}
		mark := lo.Ternary(loss == sccore.WithNeCo, `,"wiring":"authors, unit outputs"}`, `,"wiring":"authors"}`)
		if marked := strings.HasSuffix(string(encoded), mark); marked != (loss != "" && loss != sccore.WithCoTAP && loss != sccore.WithBCE) {
			t.Errorf("%s: %s", loss, encoded)
		}
		for _, text := range []string{string(encoded), strings.Replace(string(encoded), mark, "}", 1)} {
			var read sccore.Config
			if err := json.Unmarshal([]byte(text), &read); err != nil || read != config {
				t.Errorf("%s: %+v, %v", loss, read, err)
			}
		}
	}
}

func TestTeacherAndLossesAreChecked(t *testing.T) {
	for want, change := range map[string]func(c *sccore.Config){
		`patch_concentration "guess"`: func(c *sccore.Config) { c.PatchConcentration = "guess" },
		"gram compares features of both branches: want correspondences.from head": func(c *sccore.Config) {
			c.PatchConcentration, c.Correspondences.From = sccore.WithGram, sccore.FromLabels
		},
		"paka compares features of both branches": func(c *sccore.Config) { c.PatchConcentration = sccore.WithPaKA }, // From the teacher.
		"neco compares features of both branches": func(c *sccore.Config) {
			c.PatchConcentration, c.Correspondences.From = sccore.WithNeCo, sccore.FromBackbone
		},
		"same_view false": func(c *sccore.Config) {
			c.PatchConcentration, c.Correspondences = sccore.WithGram, sccore.Correspondences{From: sccore.FromHead, SameView: true}
		},
		"noise 0": func(c *sccore.Config) {
			c.PatchConcentration, c.Correspondences = sccore.WithPaKA, sccore.Correspondences{From: sccore.FromHead, Noise: 0.5}
		},
		"batch 4 in accumulate 4 parts has none": func(c *sccore.Config) {
			c.PatchConcentration, c.Correspondences.From, c.AccumulationSteps = sccore.WithNeCo, sccore.FromHead, 4
		},
		"only pairs of labels are made wrong": func(c *sccore.Config) { c.Correspondences.Noise = 0.4 },
		"views.independent":                   func(c *sccore.Config) { c.Views.Independent, c.Views.MinOverlap = true, 0 },
		"teacher.encoder":                     func(c *sccore.Config) { c.Teacher.Encoder = "" },
		"patches are of":                      func(c *sccore.Config) { c.Teacher.Encoder = "vit-s16" },
		"teacher.head":                        func(c *sccore.Config) { c.Teacher.Head.OutDim = 0 },
	} {
		config := taught(sccore.WithFastAP)
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
}
