package overdispersion

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/studytest"
)

func TestOverDispersionRecordsTableAndFigure(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	b, err := backend.OpenConfig(backend.Go) // The ablation trains the same graphs on XLA.
	if err != nil {
		t.Fatal(err)
	}
	defer b.Finalize()
	options := study.Options{Profile: study.Smoke, Out: t.TempDir(), Parallel: 1}
	if err := Study.Run(context.Background(), b, options); err != nil {
		t.Fatal(err)
	}
	records := studytest.Records(t, options.Out, Name)
	if len(records) != 2*len(columns(profileConfig(study.Smoke))) {
		t.Fatalf("%d records", len(records))
	}
	c := profileConfig(study.Smoke)
	for _, r := range records { // An epoch is once through the scenes, which are half of each batch.
		points, err := study.ReadCurve[sccore.StepMetrics](filepath.Join(r.Folder, r.Curve))
		if err != nil {
			t.Fatal(err)
		}
		numbers, err := summary(points, float64(2*c.Images)/float64(c.Second.Batch), qualities(c))
		if want := numbers[slices.IndexFunc(numbers, func(n study.Number) bool { return n.Column == r.Column })]; err != nil || r.Value != want.Value {
			t.Errorf("%s of line %s: %g, want %g (%v)", r.Column, r.Row, r.Value, want.Value, err)
		}
	}
	tables, err := Study.Experiment().Tables(records, study.Smoke)
	if err != nil || len(tables) != 1 || len(tables[0].Rows) != 3 || len(tables[0].Rows[1].Cells[0].Ours) != 1 || len(tables[0].Rows[2].Cells[0].Ours) != 1 {
		t.Errorf("%d tables, %+v, %v", len(tables), tables, err)
	}
	results, err := Study.Load(study.Options{Out: options.Out, Profile: study.Smoke})
	if err != nil {
		t.Fatal(err)
	}
	figure, err := Figure(results, options.Out)
	if err != nil || len(figure) != 3 || len(figure[0].Series) != 2 || len(figure[2].Series[1].X) != 6 {
		t.Fatalf("%+v, %v", figure, err)
	}
	dir := os.Getenv("SEMCON_TEST_FIGURES")
	if dir == "" {
		dir = t.TempDir()
	}
	if err := figures.SaveFigure(dir, "over-dispersion", figure); err != nil {
		t.Error(err)
	}
	before := len(records)
	if err := Study.Run(context.Background(), b, options); err != nil || len(studytest.Records(t, options.Out, Name)) != before {
		t.Errorf("a second call records again, or fails: %v", err)
	}
}

// TestSummary: mIoU falls by 2 points each 10 steps in the last third, 4 an epoch of 20 steps, 400 in 100 epochs; k-NN rises by 1.
func TestSummary(t *testing.T) {
	var points []sccore.StepMetrics
	q := qualities(profileConfig(study.Quick))
	for step := 10; step <= 90; step += 10 {
		miou := 50.0
		if step > 60 {
			miou -= 0.2 * float64(step-60)
		}
		points = append(points, sccore.StepMetrics{Step: step - 5}, sccore.StepMetrics{Step: step, Evaluated: map[string]float64{
			q[0].evaluated: miou, q[1].evaluated: 0.1 * float64(step), evaluatedInstance: 0.9, evaluatedClass: 0.7, evaluatedOther: 0.4,
		}})
	}
	numbers, err := summary(points, 20, qualities(profileConfig(study.Quick)))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{q[0].slope(): -400, q[1].slope(): 200, q[0].column: 44, q[1].column: 9, columnContrast: 0.3}
	for _, n := range numbers {
		if !(math.Abs(n.Value-want[n.Column]) <= 1e-9) {
			t.Errorf("%s: %g, want %g", n.Column, n.Value, want[n.Column])
		}
	}
	if _, err := summary(points[:2], 20, qualities(profileConfig(study.Quick))); err == nil || !strings.Contains(err.Error(), "1 evaluations in the last third") {
		t.Error(err)
	}
}

// TestPatchesAreLabelledByTheirMiddle compares with the masks, pixel by pixel.
func TestPatchesAreLabelledByTheirMiddle(t *testing.T) {
	scenes := synthetic.Scenes(2, 16, 1)
	p := patchesOf(evaluation.Encoded{Dim: 1, Rows: 2, Columns: 2, Patches: make([]float32, 8)}, scenes)
	for i := range 8 {
		at := i/4*256 + (8*(i%4/2)+4)*16 + 8*(i%2) + 4
		if p.Class[i] != int(scenes.ClassMask[at])-1 || p.Instance[i] != i/4*256+int(scenes.InstanceMask[at]) {
			t.Errorf("patch %d has class %d and object %d", i, p.Class[i], p.Instance[i])
		}
	}
}

func TestClaimC19(t *testing.T) {
	var records []study.Record
	for seed := range 3 {
		for row, slope := range map[string]float64{"2": -0.5, "5": 0.25} {
			records = append(records, study.Record{
				Cell: "line" + row, Row: row, Column: qualities(profileConfig(study.Quick))[0].slope(), Seed: seed, Profile: study.Quick, Value: slope, Config: study.EncodeConfig(profileConfig(study.Quick)),
			})
		}
	}
	results, err := Study.Results(records, study.Quick)
	if err != nil {
		t.Fatal(err)
	}
	for part, want := range map[string]float64{"line 2": -0.5, "line 5 − line 2": 0.75} {
		if got := results.Evidence("", studytest.Claim("C19", part))[0]; len(got.Values) != 3 || got.Values[1] != want || got.Gated != 0 {
			t.Errorf("%s: %+v, want %g", part, got, want)
		}
	}
	for i := range records {
		if records[i].Row == "5" {
			records[i].Details = map[string]float64{study.DetailGate: 1.2 + 0.1*float64(records[i].Seed)} // Those of seed 0 know hardly more than chance.
		}
	}
	if results, err = Study.Results(records, study.Quick); err != nil {
		t.Fatal(err)
	}
	for part, want := range map[string]int{"line 2": 0, "line 5 − line 2": 1} {
		if got := results.Evidence("", studytest.Claim("C19", part))[0]; got.Gated != want || len(got.Values) != 3-want {
			t.Errorf("%s: %d seeds left out, %d values; want %d and %d", part, got.Gated, len(got.Values), want, 3-want)
		}
	}
}

func TestOverDispersionOptions(t *testing.T) {
	for set, want := range map[string]string{
		"evaluate_every=0": "evaluate_every 0", "evaluate_every=2": "evaluate_every 2: want 1 to 1", "init=a.safetensors": "init", "images=2": "images 2",
	} {
		_, err := Study.Experiment().Cells(study.Options{Profile: study.Smoke, Out: t.TempDir(), Set: []string{set}}, "")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--set %s: %v, want %q", set, err, want)
		}
	}
	for _, profile := range []study.Profile{study.Smoke, study.Quick} {
		if cells, err := Study.Experiment().Cells(study.Options{Profile: profile, Out: t.TempDir()}, ""); err != nil || len(cells)%3 != 0 {
			t.Errorf("%s: %d cells, %v", profile, len(cells), err)
		}
	}
	// Full is ViT-S/16 on COCO's scenes over 50 epochs, from a checkpoint.
	full := study.Options{Profile: study.Full, Out: t.TempDir(), Data: "data"}
	if _, err := Study.Experiment().Cells(full, "images"); err == nil || !strings.Contains(err.Error(), "--set init=FILE") {
		t.Error(err)
	}
	full.Set = []string{"init=a.safetensors"}
	all, err := Study.Cells(full, "images")
	if err != nil || len(all) != 6 {
		t.Fatalf("%d cells, %v", len(all), err)
	}
	if c := all[0].Config; c.Second.Encoder != "vit-s16" || c.Second.Steps != 23_102 || c.Second.Steps/c.EvaluateEvery != 25 || qualities(c)[0].evaluated != "segmentation/miou" {
		t.Errorf("%s, %d steps, evaluated every %d", c.Second.Encoder, c.Second.Steps, c.EvaluateEvery)
	}
}
