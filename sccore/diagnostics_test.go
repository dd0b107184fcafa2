package sccore_test

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/train"
)

func diagnosticsOf(t *testing.T, trainer *sccore.Trainer) sccore.Diagnostics {
	t.Helper()
	g, err := trainer.Diagnostics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestDiagnosticsOfEveryLoss(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		trainer := tinyTrainer(t, b)
		if err := trainer.Begin(1); err != nil {
			t.Fatal(err)
		}
		g := diagnosticsOf(t, trainer)
		l := g.Lengths
		if !(l.PatchAlignment > 0 && l.ImageAlignment > 0 && l.PatchConcentration > 0 && l.ImageConcentration > 0) || l.Prototypes != 0 {
			t.Errorf("lengths %+v", l)
		}
		if len(g.Precision) != 3 || !(g.Precision[2] >= 0 && g.Precision[2] <= 100) {
			t.Errorf("precision %v", g.Precision)
		}
		if again := diagnosticsOf(t, trainer); again.Lengths != l {
			t.Errorf("lengths %+v, before %+v", again.Lengths, l)
		}
		more(t, trainer, 1)
		if after := diagnosticsOf(t, trainer); after.Lengths == l {
			t.Error("a step changes nothing")
		}
	})
}

// TestDiagnosticsOfLabelsArePrecise takes correspondences from labels: the precision is 1 without noise, and with noise alone the same as over all pairs.
func TestDiagnosticsOfLabelsArePrecise(t *testing.T) {
	b := onGo(t)
	config := tiny()
	config.Lambdas = losses.Lambdas{PatchAlignment: 1, PatchConcentration: 1}
	config.Correspondences.From = sccore.FromLabels
	trainer := newTrainer(t, b, tinyData(), config)
	if err := trainer.Begin(1); err != nil {
		t.Fatal(err)
	}
	if g := diagnosticsOf(t, trainer); g.Precision[0] != 100 {
		t.Errorf("precision %v of the labels", g.Precision)
	}
	config.Correspondences.Noise = 1
	if err := trainer.Configure(config); err != nil {
		t.Fatal(err)
	}
	if g := diagnosticsOf(t, trainer); !(g.Precision[2] < 60) {
		t.Errorf("precision %v of noise", g.Precision)
	}
}

// TestPairsOfObjectsAreJudgedApart: with a label for background, pairs with an unlabelled patch and pairs of two patches of background count nowhere,
// and those of background and an object not among objects.
func TestPairsOfObjectsAreJudgedApart(t *testing.T) {
	b := onGo(t)
	config := tiny()
	config.Lambdas = losses.Lambdas{PatchAlignment: 1, PatchConcentration: 1}
	counts := func(background uint8) (all, objects int) {
		data := tinyData()
		data.Background = background
		trainer := newTrainer(t, b, data, config)
		if err := trainer.Begin(1); err != nil {
			t.Fatal(err)
		}
		d := diagnosticsOf(t, trainer)
		more, err := trainer.Correspondences(t.Context())
		if err != nil || len(more.Pairs.Scores) <= len(d.Pairs.Scores) || !slices.Equal(more.Pairs.Scores[:len(d.Pairs.Scores)], d.Pairs.Scores) {
			t.Errorf("correspondences of more images, %d pairs, do not begin with these %d pairs: %v", len(more.Pairs.Scores), len(d.Pairs.Scores), err)
		}
		return len(d.Pairs.Scores), len(d.Objects.Scores)
	}
	all, objects := counts(0)
	labelled, fewer := counts(1)
	if !(objects < all && 0 < fewer && fewer < labelled && labelled < objects) {
		t.Errorf("%d pairs, of objects %d; with background labelled 1 %d, of objects %d", all, objects, labelled, fewer)
	}
}

func TestShares(t *testing.T) {
	g := sccore.Diagnostics{Lengths: losses.Lambdas{PatchAlignment: 0.5, PatchConcentration: 0.25, Prototypes: 7}}
	if got := g.Shares(losses.Lambdas{PatchAlignment: 1, PatchConcentration: 6}); got != (losses.Lambdas{PatchAlignment: 0.25, PatchConcentration: 0.75}) {
		t.Errorf("%+v", got)
	}
	if got := (sccore.Diagnostics{}).Shares(losses.DefaultLambdas()); got != (losses.Lambdas{}) {
		t.Errorf("%+v without gradients", got)
	}
}

// TestDiagnosticsDoNotDisturbTraining trains with and without diagnostics.
func TestDiagnosticsDoNotDisturbTraining(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	trainer := newTrainer(t, onGo(t), tinyData(), tiny())
	var ends [2]string
	var seen map[string]float64
	for i, every := range []int{0, 3} {
		err := (&train.Loop[sccore.StepMetrics]{
			Trainer: trainer, Dir: t.TempDir(), Every: time.Hour, Start: func() error { return trainer.Begin(3) },
			Evaluators: []train.Evaluator{trainer.DiagnosticsEvaluator(every)},
			After: func(_ sccore.StepMetrics, evaluated map[string]float64) error {
				if evaluated != nil {
					seen = evaluated
				}
				return nil
			},
		}).Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ends[i] = state(t, trainer)
	}
	if ends[0] != ends[1] {
		t.Error("diagnostics change the run")
	}
	sum := 0.0
	for name, value := range seen {
		if strings.HasPrefix(name, "gauges/share_") {
			sum += value
		}
	}
	if !(math.Abs(sum-1) <= 1e-9) || len(seen) != 13 {
		t.Errorf("shares add up to %g: %v", sum, seen)
	}
}

// TestLambdasByGradient asks for concentrations whose gradients are half as long as alignment's, and resumes a run with them.
func TestLambdasByGradient(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	config := tiny()
	config.LambdaBy = sccore.ByGradient
	config.Lambdas.PatchConcentration, config.Lambdas.ImageConcentration = 0.5, 0.5
	b := onGo(t)
	trainer := newTrainer(t, b, tinyData(), config)
	steps := trained(t, trainer, 3, 2)
	l := trainer.Lambdas()
	if steps[0].Lambdas == nil || *steps[1].Lambdas != l || l.PatchAlignment != 1 || l.Prototypes != 1 {
		t.Fatalf("weights %+v, recorded %+v", l, steps[0].Lambdas)
	}
	if err := trainer.Begin(3); err != nil {
		t.Fatal(err)
	}
	before, unmeasured := filepath.Join(t.TempDir(), "before.safetensors"), newTrainer(t, b, tinyData(), config)
	if err := errors.Join(unmeasured.Begin(3), unmeasured.Save(before, "")); err != nil {
		t.Fatal(err)
	}
	if _, err := unmeasured.Resume(before); err != nil {
		t.Fatal(err)
	}
	if more(t, unmeasured, 1); unmeasured.Lambdas() != l {
		t.Errorf("weights %+v after resuming at step 0, want %+v", unmeasured.Lambdas(), l)
	}
	g := diagnosticsOf(t, trainer).Lengths
	for name, ratio := range map[string]float64{
		"patch": l.PatchConcentration * g.PatchConcentration / g.PatchAlignment, "image": l.ImageConcentration * g.ImageConcentration / g.ImageAlignment,
	} {
		if !(ratio > 0.25 && ratio < 1) { // Of one batch; the weights are of eight.
			t.Errorf("%s: the gradient is %g of alignment's, want about 0.5", name, ratio)
		}
	}

	trained(t, trainer, 3, 2)
	path := filepath.Join(t.TempDir(), "middle.safetensors")
	if err := trainer.Save(path, ""); err != nil {
		t.Fatal(err)
	}
	more(t, trainer, 2)
	want := state(t, trainer)
	resumed := newTrainer(t, b, tinyData(), config)
	if _, err := resumed.Resume(path); err != nil {
		t.Fatal(err)
	}
	if resumed.Lambdas() != l {
		t.Errorf("weights %+v after resuming, %+v before", resumed.Lambdas(), l)
	}
	more(t, resumed, 2)
	if state(t, resumed) != want {
		t.Error("a resumed run ends elsewhere")
	}
	content, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(content), `"lambdas":"{\"patch_alignment\"`) {
		t.Errorf("the checkpoint does not hold the weights: %v", err)
	}

	config.Lambdas.PatchAlignment = 0
	if err := settings.Check(config); err == nil || !strings.Contains(err.Error(), "lambdas.patch_concentration is a share of patch_alignment") {
		t.Errorf("error %v", err)
	}
	config.LambdaBy = "guess"
	if err := settings.Check(config); err == nil || !strings.Contains(err.Error(), `lambda_by "guess"`) {
		t.Errorf("error %v", err)
	}
}
