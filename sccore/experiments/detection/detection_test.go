package detection

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/finetune"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/encoders"
)

func TestSmokeRecordsBoxesAndMasksOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	out, b := t.TempDir(), testbackend.Go(t)
	for range 2 { // The second finds everything recorded.
		if err := Study.Run(context.Background(), b, study.Options{Profile: study.Smoke, Out: out}); err != nil {
			t.Fatal(err)
		}
	}
	records, err := study.Records(study.Folder(out, Name))
	if err != nil || len(records) != 2 {
		t.Fatalf("%d records, %v, want one for boxes and one for masks", len(records), err)
	}
	for i, kind := range []string{boxes, masks} {
		r, letter := records[i], kind[:1]
		if r.Row != encoders.Random || r.Column != "synthetic scenes/"+kind || !(r.Value >= 0 && r.Value < 100) || !(r.Details["gflop_per_image"] > 0) || r.Details["AP_"+letter] != r.Value {
			t.Errorf("record %d is %s, %s: %g, %v", i, r.Row, r.Column, r.Value, r.Details)
		}
	}
	results, err := Study.Load(study.Options{Out: out, Profile: study.Smoke})
	if err != nil || !slices.Equal(encoders.DatasetsOf(results.Columns()), []string{"synthetic scenes"}) {
		t.Fatal(results.Columns(), err)
	}
	tables := Study.Tables(results)
	if len(tables) != 3 {
		t.Fatal(len(tables))
	}
	for i, columns := range []int{4, 12, 12} {
		if len(tables[i].Columns) != columns {
			t.Errorf("%s has columns %v, want %d", tables[i].Title, tables[i].Columns, columns)
		}
	}
	if first := tables[2].Rows[0]; len(first.Cells[0].Ours) != 1 || first.Cells[0].Ours[0] != records[0].Value || first.Cells[6].Ours[0] != records[1].Value {
		t.Errorf("the table has %+v for %g and %g", first.Cells, records[0].Value, records[1].Value)
	}

	sheet, err := Stages(results, b, "", out, encoders.Random, "synthetic scenes", 2)
	if err != nil || len(sheet.Images) != 5 || len(sheet.Images[4]) != 2 {
		t.Fatalf("%d rows, %v", len(sheet.Images), err)
	}
	if sheet, err := TrainingImages("", encoders.Synthetic, study.Smoke, 3); err != nil || len(sheet.Images[0]) != 3 {
		t.Errorf("%d images, %v", len(sheet.Images[0]), err)
	}

	// The exported model finds what the trained one did, and the result file is judged alike.
	folder := filepath.Dir(records[0].File(out, records[0].Encoder))
	m, err := finetune.OpenDetectionModel(b, filepath.Join(folder, encoders.Model))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	data, err := open(study.Options{}, encoders.Synthetic, grid.Defaults(study.Smoke, encoders.Synthetic, ""), 0)
	if err != nil {
		t.Fatal(err)
	}
	again, err := m.Inference.Evaluate(context.Background(), data.tested, m.Detect)
	if err != nil || 100*again.Boxes.AP != records[0].Value || 100*again.Masks.AP != records[1].Value {
		t.Errorf("the exported model has AP %g and %g, the records %g and %g; %v", again.Boxes.AP, again.Masks.AP, records[0].Value, records[1].Value, err)
	}
	written, err := metrics.OpenDetections(filepath.Join(folder, resultsFile), data.tested.Truth)
	if err != nil {
		t.Fatal(err)
	}
	if judged, err := metrics.EvaluateCOCO(data.tested.Truth, written, metrics.Boxes); err != nil || judged != again.Boxes {
		t.Errorf("the result file has %+v, %v", judged, err)
	}
}

func TestFullIsTheRecipe(t *testing.T) {
	c, err := grid.Config(study.Full, cocoName, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	o, a, d := c.Optimizer, c.Augmentation, c.Detector
	got := fmt.Sprintf("%d steps of %d images, rate %g, layer decay %g, weight decay %g, drop path %g, warm-up %d; %d to %d px, at most %d; %d anchors, %d proposals, %d samples, %d detections",
		c.Steps, c.Batch, o.LearningRate, o.LayerDecay, o.WeightDecay, o.DropPath, o.WarmUp, a.MinShort, a.MaxShort, a.Long, d.AnchorSamples, d.TrainProposals, d.BoxSamples, d.Detections)
	if want := "43974 steps of 32 images, rate 0.0002, layer decay 0.8, weight decay 0.05, drop path 0.1, warm-up 500; 480 to 800 px, at most 1333; 256 anchors, 2000 proposals, 512 samples, 100 detections"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for step, want := range map[int]float64{32900: 2e-4, 33000: 2e-5, 40200: 2e-5, 40400: 2e-6} { // Epochs of 3,664 steps: after 9 and 11.
		if rate := o.Rate(step, c.Steps); !(math.Abs(rate/want-1) <= 1e-9) {
			t.Errorf("rate %g at step %d, want %g", rate, step, want)
		}
	}
}

func TestOptionsThatAreRefused(t *testing.T) {
	for assignment, want := range map[string]string{
		"augmentation.long=0": "augmentation.long 0", "batch=-1": "batch -1", "images=-1": "images -1", "parts=3": "parts", "optimizer.rate=0": "rate 0", "detector.channels=0": "channels 0",
		"detector.classes=5": "detector.classes 5", "objects=0": "objects 0", "mask_size=2": "mask_size 2", "augmentation.long=8": "max_short 64", "head=x": "head", "detector.train_proposals=16384": "proposals 16384",
	} {
		if _, err := grid.Config(study.Quick, encoders.Synthetic, "", []string{"batch=32", assignment}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--set %s: %v, want an error with %q", assignment, err, want)
		}
	}
	if err := Study.Run(context.Background(), nil, study.Options{Profile: study.Full, Out: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "--data") {
		t.Errorf("full without data: %v", err)
	}
}

// TestClaims measures made-up records.
func TestClaims(t *testing.T) {
	var records []study.Record
	for seed := range 3 {
		for row, gain := range map[string]float64{"random": 0, "second": 5, "ibot-s16": 40, "ibot+ours-s16": 42} {
			for dataset, profile := range map[string]study.Profile{"synthetic": study.Quick, cocoName: study.Quick} {
				c := grid.Defaults(profile, dataset, "")
				c.Encoder.Row = row
				title := map[string]string{"synthetic": "synthetic scenes", cocoName: "COCO"}[dataset]
				for kind, minus := range map[string]float64{boxes: 0, masks: 3} {
					value := 10 + gain - minus + float64(seed)
					if row == "second" || row == "ibot+ours-s16" {
						value += 0.1 * float64(seed)
					}
					records = append(records, study.Record{
						Experiment: Name, Cell: fmt.Sprintf("%s/%s/seed%d", dataset, row, seed), Row: row, Column: title + "/" + kind, Seed: seed, Value: value, Profile: profile,
						Config: study.EncodeConfig(c), Data: dataset, Details: map[string]float64{"AP_" + kind[:1]: value},
					})
				}
			}
		}
	}
	for part, want := range map[string]float64{"own against random weights, boxes": 5.1, "own against random weights, masks": 5.1, "iBOT, boxes": 2.1, "iBOT, masks": 2.1} {
		at := slices.IndexFunc(figures.Claims(), func(c figures.Claim) bool { return c.Experiment == Name && c.Part == part })
		if at < 0 {
			t.Fatalf("no claim about %s", part)
		}
		claim := figures.Claims()[at]
		evidence, err := Study.Experiment().Measure(records, study.Quick, claim.Kind, claim)
		if err != nil || len(evidence[0].Values) != 3 || !(math.Abs(evidence[0].Values[1]-want) <= 1e-9) {
			t.Errorf("%s: %+v, %v, want %g for seed 1", part, evidence, err, want)
		}
		if _, verdict := claim.Evaluate(evidence[0].Values); verdict != figures.HoldsAlone {
			t.Errorf("%s %s", part, verdict)
		}
	}
	tables, err := Study.Experiment().Tables(records, study.Quick)
	if err != nil || len(tables) != 4 {
		t.Fatal(len(tables), err)
	}
	if row := slices.IndexFunc(tables[0].Rows, func(r figures.Row) bool { return slices.Equal(r.Heads, []string{"iBOT", "ViT-S/16"}) }); len(tables[0].Rows[row].Cells[0].Ours) != 3 ||
		len(tables[0].Rows[row].Cells[3].Ours) != 3 || tables[0].Rows[row].Cells[3].Ours[0] != 47 {
		t.Errorf("iBOT: %+v", tables[0].Rows[row].Cells)
	}
}
