package pretrain

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/weights"
)

func TestPretrainConfigsAreInRange(t *testing.T) {
	for _, profile := range []Profile{Smoke, Quick, Full} {
		if err := pretrainConfig(profile).check(); err != nil {
			t.Errorf("%s: %v", profile, err)
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
		"probe.steps=0":                       "0 steps",
		"second.views.Global.JitterStrength=\"much\"": "much",
	} {
		options := Options{Profile: Smoke, Out: t.TempDir(), Set: []string{set}}
		err := runPretrain(t.Context(), nil, options)
		var wrong BadOption
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), want) {
			t.Errorf("--set %s: error %v, want one with %q", set, err, want)
		}
	}
	if err := runPretrain(t.Context(), nil, Options{Profile: Full, Out: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "--data") {
		t.Errorf("full without data: %v", err)
	}
	full := Options{Profile: Full, Out: t.TempDir(), Data: t.TempDir()}
	if err := runPretrain(t.Context(), nil, full); err == nil || !strings.Contains(err.Error(), "init=FILE") {
		t.Errorf("full without a checkpoint: %v", err)
	}
}

// TestPretrainGoesOnAfterItWasStopped stops a run in each stage, lets it end, and runs it once more, which finds all recorded.
func TestPretrainGoesOnAfterItWasStopped(t *testing.T) {
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	for _, stage := range []string{"/first", "/second"} {
		ctx, stop := context.WithCancel(t.Context())
		options := Options{Profile: Smoke, Out: out, Watch: func(cell string, course []Point) {
			if strings.HasSuffix(cell, stage) && len(course) == 2 {
				stop()
			}
		}}
		if err := runPretrain(ctx, b, options); !errors.Is(err, context.Canceled) {
			t.Fatalf("stopped in %s: %v", stage, err)
		}
	}
	for range 2 {
		if err := runPretrain(t.Context(), b, Options{Profile: Smoke, Out: out}); err != nil {
			t.Fatal(err)
		}
		results, err := LoadPretrain(out, Smoke)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range []string{rowRandom, rowFirst, rowSecond} {
			for _, column := range []string{columnMIoU, columnKNN} {
				if values := results.Values(row, column); len(values) != 1 || !(values[0] >= 0 && values[0] <= 100) {
					t.Errorf("%s, %s: %v", row, column, values)
				}
			}
		}
		table := results.table()
		if len(table.Rows) != 3 || len(table.Columns) != 2 {
			t.Errorf("table of %d rows and %d columns", len(table.Rows), len(table.Columns))
		}
	}
	records, err := Records(filepath.Join(out, Pretrain))
	if err != nil || len(records) != 6 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	config := pretrainConfig(Smoke)
	if len(records[5].Curve) == 0 || records[5].Details["step"] != float64(config.Second.Steps) {
		t.Errorf("record %+v", records[5])
	}
	vit, err := encoder.ViTByName(config.Second.Encoder)
	if err != nil {
		t.Fatal(err)
	}
	vit.Prototypes = config.Second.Prototypes
	if _, err := weights.ReadViT(PretrainedEncoder(out, records[5], "second"), vit, ""); err != nil {
		t.Error(err)
	}
}

// TestPretrainingLearns trains the first stage on patches alone for part of its steps and looks at patch features before and after.
// Chance is what the initial weights reach.
func TestPretrainingLearns(t *testing.T) {
	config := pretrainConfig(Quick)
	config.First.Steps, config.First.Lambdas.ImageAlignment, config.Images = 120, 0, 384
	if !testbackend.HasXLA() { // There the trainer's own test learns something smaller.
		t.Log("on the Go engine these steps take minutes")
		return
	}
	config.Second = config.First
	data, err := openPretrainData("", config)
	if err != nil {
		t.Fatal(err)
	}
	study := &pretrainStudy{backend: testbackend.Fastest(t), data: data}
	stage, err := study.newStage("first", config.First)
	if err != nil {
		t.Fatal(err)
	}
	defer stage.close()
	if err := stage.trainer.Begin(1); err != nil {
		t.Fatal(err)
	}
	mIoU := func() float64 {
		numbers, err := measurePretrain(study.backend, stage.frozen, data, config, 1)
		if err != nil {
			t.Fatal(err)
		}
		return numbers[0].value
	}
	before := mIoU()
	for range config.First.Steps {
		if _, err := stage.trainer.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	after := mIoU()
	t.Logf("linear mIoU %.1f %% with initial weights, %.1f %% trained", before, after)
	if after < before+3 {
		t.Errorf("linear mIoU %.1f %% with initial weights, %.1f %% trained, want at least 3 points more", before, after)
	}
}
