package finetuning

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/finetune"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/encoders"
)

func TestSmokeRecordsEachHeadOnce(t *testing.T) {
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
		t.Fatalf("%d records, %v, want one for each head", len(records), err)
	}
	for i, column := range []string{"synthetic scenes/UperNet", "synthetic scenes/FPN"} {
		r := records[i]
		if r.Row != encoders.Random || r.Column != column || !(r.Value >= 0 && r.Value < 100) || !(r.Details["gflop_per_crop"] > 0) {
			t.Errorf("record %d is %s, %s: %g, %v", i, r.Row, r.Column, r.Value, r.Details)
		}
	}
	results, err := Study.Load(study.Options{Out: out, Profile: study.Smoke})
	if err != nil || !slices.Equal(encoders.DatasetsOf(results.Columns()), []string{"synthetic scenes"}) {
		t.Fatal(results.Columns(), err)
	}
	tables := Study.Tables(results)
	if len(tables) != 2 {
		t.Fatal(len(tables))
	}
	for i, rows := range []int{10, 1} {
		if len(tables[i].Rows) != rows {
			t.Errorf("%s has %d rows, want %d", tables[i].Title, len(tables[i].Rows), rows)
		}
	}
	if got := tables[1].Rows[0].Cells[0].Ours; len(got) != 1 || got[0] != records[0].Value {
		t.Errorf("the table has %v for %g", got, records[0].Value)
	}

	predictions, classes, err := Predictions(results, b, "", out, encoders.Random, "synthetic scenes/UperNet", 3)
	if err != nil || len(predictions) != 3 || len(classes) != 7 {
		t.Fatalf("%d predictions of %d classes, %v", len(predictions), len(classes), err)
	}
	for _, p := range predictions {
		if len(p.Predicted) != 64*64 || len(p.Image.Mask) != 64*64 {
			t.Errorf("%d pixels are predicted of %d", len(p.Predicted), len(p.Image.Mask))
		}
	}
	if sheet, err := Crops("", encoders.Synthetic, study.Smoke, 4); err != nil || len(sheet.Images[0]) != 4 || len(sheet.Images[1]) != 4 {
		t.Errorf("%d crops, %v", len(sheet.Images[0]), err)
	}

	// The exported model predicts what the trained one did.
	for _, r := range records {
		m, err := finetune.OpenSegmentationModel(b, r.File(out, r.Encoder))
		if err != nil {
			t.Fatal(err)
		}
		data, err := open(study.Options{}, encoders.Synthetic, grid.Defaults(study.Smoke, encoders.Synthetic, m.Segmenter.Head), 0)
		if err != nil {
			t.Fatal(err)
		}
		again, err := m.Inference.Evaluate(context.Background(), data.Test, m.Segment)
		m.Close()
		if err != nil || again.MIoU != r.Value {
			t.Errorf("%s: the exported model has mIoU %g, the record %g; %v", r.Column, again.MIoU, r.Value, err)
		}
	}
}

func TestFullIsTheRecipe(t *testing.T) {
	for head, want := range map[string]string{
		finetune.UPerNet: "160000 steps of 16 crops, rate 3e-05, layer decay 0.9, weight decay 0.05, drop path 0.1, slide, 384 channels on a grid of 32, halved false",
		finetune.FPN:     "80000 steps of 16 crops, rate 6e-05, layer decay 1, weight decay 0.01, drop path 0.05, whole, 384 channels on a grid of 32, halved false",
	} {
		c, err := grid.Config(study.Full, "ade20k", head, nil)
		if err != nil {
			t.Fatal(err)
		}
		o := c.Optimizer
		got := fmt.Sprintf("%d steps of %d crops, rate %g, layer decay %g, weight decay %g, drop path %g, %s", c.Steps, c.Batch, o.LearningRate, o.LayerDecay, o.WeightDecay, o.DropPath, c.Inference.Mode)
		for architecture, suffix := range map[string]string{"vit-s16": "", "vit-s8": "8"} {
			vit, err := encoder.ViTByName(architecture)
			if err != nil {
				t.Fatal(err)
			}
			s := c.training(vit, 150).Segmenter
			made := fmt.Sprintf("%s, %d channels on a grid of %d, halved %t", got, s.Channels, s.ViT.GridSize, s.Halved)
			if wanted := map[string]string{"": want, "8": strings.NewReplacer("grid of 32", "grid of 64", "false", "true").Replace(want)}[suffix]; made != wanted {
				t.Errorf("%s on %s: %s, want %s", head, architecture, made, wanted)
			}
		}
	}
}

func TestSetIsForAHeadOrADataset(t *testing.T) {
	set := []string{"batch=4", "fpn.steps=7", "ade20k.images=3", "optimizer.rate=0.5"}
	c, err := grid.Config(study.Quick, "coco", finetune.FPN, set)
	if err != nil || c.Batch != 4 || c.Steps != 7 || c.Images == 3 || c.Optimizer.LearningRate != 0.5 {
		t.Errorf("%+v, %v", c, err)
	}
	for assignment, want := range map[string]string{
		"head=linear": "--only", "augmentation.crop_size=0": "augmentation.crop_size 0", "inference.stride=1000": "inference.stride 1000",
		"batch=-1": "batch -1", "images=-1": "images -1", "parts=3": "parts", "parts=8": "UPerNet", "optimizer.rate=0": "rate 0", "channels=1": "channels 1",
	} {
		if _, err := grid.Config(study.Quick, "coco", finetune.UPerNet, []string{assignment}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--set %s: %v, want an error with %q", assignment, err, want)
		}
	}
}

func TestGainsArePairedBySeed(t *testing.T) {
	c, err := grid.Config(study.Quick, encoders.Synthetic, finetune.UPerNet, nil)
	if err != nil {
		t.Fatal(err)
	}
	var records []study.Record
	for row, values := range map[string][]float64{encoders.Random: {10, 30, 20}, encoders.First: {12, 33, 24}, encoders.Control: {12, 33, 24}, encoders.Second: {19, 39}} {
		for seed, value := range values {
			records = append(records, study.Record{
				Row: row, Column: "synthetic scenes/UperNet", Value: value, Seed: seed, Profile: study.Quick, Config: study.EncodeConfig(c),
			})
		}
	}
	results, err := Study.Results(records, study.Quick)
	if err != nil {
		t.Fatal(err)
	}
	tables := Study.Tables(results)
	if len(tables) != 3 {
		t.Fatal(len(tables))
	}
	gains := tables[2]
	for i, want := range []struct {
		title  string
		values []float64
	}{{"alignment − random init", []float64{2, 3, 4}}, {"full method − random init", []float64{9, 9}}, {"full method − alignment, equal steps", []float64{7, 6}}} {
		if row := gains.Rows[i]; !strings.EqualFold(row.Heads[0], want.title) || !slices.Equal(row.Cells[0].Ours, want.values) {
			t.Errorf("row %d is %s: %v, want %s: %v", i, row.Heads[0], row.Cells[0].Ours, want.title, want.values)
		}
	}
	// The mean of 2, 3, 4 is 3, its standard error 1/√3, and t(2) is 4.303.
	if !strings.Contains(gains.Caption, "synthetic scenes/UperNet: 0.5 to 5.5") {
		t.Error(gains.Caption)
	}
}
