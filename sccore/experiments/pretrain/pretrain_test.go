package pretrain

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/studytest"
	"github.com/semcon/semcon/sccore/weights"
)

// small are encoders that train in a third of the time. What resumes, and what is recorded, does not depend on their width.
var small = []string{"first.encoder=vit-16x2x2p8-grid6", "second.encoder=vit-16x2x2p8-grid6"}

func TestPretrainConfigsAreInRange(t *testing.T) {
	for _, profile := range []study.Profile{study.Smoke, study.Quick, study.Full} {
		if err := settings.Check(recipe.ProfileConfig(profile, false)); err != nil {
			t.Errorf("%s: %v", profile, err)
		}
		read := recipe.ProfileConfig(profile, true)
		if err := read.Check(profile, true); err != nil {
			t.Errorf("%s on real images: %v", profile, err)
		}
	}
	for set, want := range map[string]string{
		"second.batch=1":                      "second.batch 1",
		"second.speed=1":                      `"speed"`,
		"first.encoder=vit-s16":               "first.",
		"first.lambdas.image_concentration=1": "first.lambdas.image_concentration",
		"second.correspondences.from=labels":  "without labels",
		"images=5":                            "images 5",
		"size=20":                             "size 20",
		"knn.k=0":                             "k 0",
		"probe.steps=0":                       "steps 0",
		"second.views.Global.JitterStrength=\"much\"": "much",
	} {
		options := study.Options{Profile: study.Smoke, Out: t.TempDir(), Set: []string{set}}
		err := Study.Run(t.Context(), nil, options)
		var wrong study.BadOption
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), want) {
			t.Errorf("--set %s: error %v, want one with %q", set, err, want)
		}
	}
	if err := Study.Run(t.Context(), nil, study.Options{Profile: study.Full, Out: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "--data") {
		t.Errorf("full without data: %v", err)
	}
	full := study.Options{Profile: study.Full, Out: t.TempDir(), Data: t.TempDir()}
	if err := Study.Run(t.Context(), nil, full); err == nil || !strings.Contains(err.Error(), "init=FILE") {
		t.Errorf("full without a checkpoint: %v", err)
	}
}

// TestPretrainGoesOnAfterItWasStopped stops a run in each stage, lets it end, and runs it once more, which finds all recorded.
func TestPretrainGoesOnAfterItWasStopped(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	for _, stage := range []string{"/first", "/control", "/second"} {
		ctx, stop := context.WithCancel(t.Context())
		options := study.Options{Profile: study.Smoke, Out: out, Set: small, Watch: func(cell string, curve []study.Point) {
			if strings.HasSuffix(cell, stage) && len(curve) == 2 {
				stop()
			}
		}}
		if err := Study.Run(ctx, b, options); !errors.Is(err, context.Canceled) {
			t.Fatalf("stopped in %s: %v", stage, err)
		}
	}
	for range 2 {
		if err := Study.Run(t.Context(), b, study.Options{Profile: study.Smoke, Out: out, Set: small}); err != nil {
			t.Fatal(err)
		}
		results, err := Study.Load(study.Options{Out: out, Profile: study.Smoke})
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range []string{recipe.RowRandom, recipe.RowAlignment, recipe.RowControl, recipe.RowMethod} {
			for _, column := range []string{recipe.ColumnMIoU, recipe.ColumnKNN} {
				if values := results.Values(row, column); len(values) != 1 || !(values[0] >= 0 && values[0] <= 100) {
					t.Errorf("%s, %s: %v", row, column, values)
				}
			}
		}
		table := table(results)
		if len(table.Rows) != 4+2 || len(table.Columns) != 2 { // The encoders, and two differences.
			t.Errorf("table of %d rows and %d columns", len(table.Rows), len(table.Columns))
		}
	}
	records, err := study.Records(study.Folder(out, Name))
	if err != nil || len(records) != 8 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	config := recipe.ProfileConfig(study.Smoke, false)
	if len(records[7].Curve) == 0 || records[7].Details["step"] != float64(config.Second.Steps) {
		t.Errorf("record %+v", records[7])
	}
	vit, err := encoder.ViTByName("vit-16x2x2p8-grid6")
	if err != nil {
		t.Fatal(err)
	}
	vit.Prototypes = config.Second.Prototypes
	if _, err := weights.ReadViT(recipe.EncoderFile(out, records[7], "second"), vit, ""); err != nil {
		t.Error(err)
	}
	card, err := os.ReadFile(weights.CardPath(recipe.EncoderFile(out, records[7], "second")))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`semcon.Open("online.safetensors")`, "timm.models.VisionTransformer(img_size=48, patch_size=8", "run synthetic/seed0", "Object-Aware Filter", "Record: mIoU ", `"second":{`} {
		if !strings.Contains(string(card), want) {
			t.Errorf("no %q in the card:\n%s", want, card)
		}
	}
}

// TestPretrainingLearns trains the first stage on patches alone for part of its steps and looks at patch features before and after.
// Chance is what the initial weights reach.
func TestPretrainingLearns(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	config := recipe.ProfileConfig(study.Quick, false)
	config.First.Steps, config.First.Lambdas.ImageAlignment, config.Images = 60, 0, 256
	if !testbackend.HasXLA() { // There the trainer's own test learns something smaller.
		t.Skip("on the Go engine these steps take minutes")
	}
	config.Second = config.First
	data, err := recipe.Open(study.Options{}, config, 0)
	if err != nil {
		t.Fatal(err)
	}
	b := testbackend.Fastest(t)
	stage, err := recipe.New(b, data.Train, recipe.Stage{Name: "first", Config: config.First})
	if err != nil {
		t.Fatal(err)
	}
	defer stage.Close()
	if err := stage.Trainer.Begin(1); err != nil {
		t.Fatal(err)
	}
	mIoU := func() float64 {
		numbers, err := recipe.MeasureAll(t.Context(), &evaluation.Encoder{FeatureExtractor: stage.Frozen, Seed: 1}, measuresOf(data, config))
		if err != nil {
			t.Fatal(err)
		}
		return numbers[0].Value
	}
	before := mIoU()
	for range config.First.Steps / 2 {
		if _, err := stage.Trainer.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	after := mIoU()
	t.Logf("linear mIoU %.1f %% with initial weights, %.1f %% trained", before, after)
	if after < before+3 {
		t.Errorf("linear mIoU %.1f %% with initial weights, %.1f %% trained, want at least 3 points more", before, after)
	}
}

// TestEvaluatorsAlongTheTrainingChangeNothing compares a run with and without them: the same numbers and encoders, and their values in the curve.
func TestEvaluatorsAlongTheTrainingChangeNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	b := testbackend.Go(t)
	run := func(set ...string) (numbers string, encoder []byte, curve []sccore.StepMetrics) {
		out := t.TempDir()
		if err := Study.Run(t.Context(), b, study.Options{Profile: study.Smoke, Out: out, Set: append(set, small...)}); err != nil {
			t.Fatal(err)
		}
		records := studytest.Records(t, out, Name)
		for _, r := range records {
			numbers += fmt.Sprintln(r.Row, r.Column, r.Value)
		}
		file := recipe.EncoderFile(out, records[len(records)-1], "second")
		encoder, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		encoder = encoder[8+binary.LittleEndian.Uint64(encoder):] // The names and the configuration stand before.
		if curve, err = study.ReadCurve[sccore.StepMetrics](filepath.Join(filepath.Dir(file), recipe.CurveFile)); err != nil {
			t.Fatal(err)
		}
		return numbers, encoder, curve
	}
	numbers, encoder, curve := run()
	evaluatedNumbers, evaluatedEncoder, evaluatedCurve := run("evaluate_every=3", "evaluate=centroid")
	if numbers != evaluatedNumbers || !bytes.Equal(encoder, evaluatedEncoder) {
		t.Errorf("with evaluators\n%swithout\n%s, or the encoders differ", evaluatedNumbers, numbers)
	}
	count := func(curve []sccore.StepMetrics) (evaluated int) {
		for _, m := range curve {
			if _, ok := m.Evaluated["knn/accuracy"]; ok && m.Evaluated["probe/miou"] > 0 && m.Evaluated["centroid/accuracy"] > 0 {
				evaluated++
			}
		}
		return evaluated
	}
	if count(curve) != 0 || count(evaluatedCurve) != 3 { // Steps 3, 6 and 8.
		t.Errorf("evaluated at %d steps without and at %d with evaluators of every third", count(curve), count(evaluatedCurve))
	}
	if panels := Curves("run", recipe.Points(evaluatedCurve)); len(panels) != 4 {
		t.Errorf("%d panels of curves", len(panels))
	}
}
