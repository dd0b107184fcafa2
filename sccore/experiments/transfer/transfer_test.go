package transfer

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/heads"
	"github.com/semcon/semcon/sccore/progress"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/encoders"
	"github.com/semcon/semcon/sccore/study/studytest"
	"github.com/semcon/semcon/sccore/weights"
)

func runTransferSmoke(t *testing.T, out string, set ...string) error {
	t.Helper()
	return Study.Run(context.Background(), testbackend.Go(t), study.Options{Profile: study.Smoke, Out: out, Set: set})
}

func TestTransferRecordsEachHeadOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	out := t.TempDir()
	for range 2 { // The second finds everything recorded.
		if err := runTransferSmoke(t, out); err != nil {
			t.Fatal(err)
		}
	}
	records, err := study.Records(study.Folder(out, Name))
	if err != nil || len(records) != 2 {
		t.Fatalf("%d records, %v, want one for each head", len(records), err)
	}
	for i, column := range []string{"synthetic scenes/Linear", "synthetic scenes/FCN"} {
		r := records[i]
		if r.Row != encoders.Random || r.Column != column || !(r.Value > 0 && r.Value < 100) || !(r.Details["accuracy"] > 0) {
			t.Errorf("record %d is %s, %s: %g, %v", i, r.Row, r.Column, r.Value, r.Details)
		}
		if !slices.Contains([]float64{1e-4, 1e-3, 3e-3, 1e-2}, r.Details["rate"]) || !strings.Contains(r.Protocol, "on 4 held-out training images") {
			t.Errorf("rate %g by the protocol %s", r.Details["rate"], r.Protocol)
		}
	}

	// Another place gives the same numbers, with features that are computed each time, too.
	for _, set := range [][]string{nil, {"cache_gib=0"}} {
		other := t.TempDir()
		if err := runTransferSmoke(t, other, set...); err != nil {
			t.Fatal(err)
		}
		again, err := study.Records(study.Folder(other, Name))
		if err != nil || len(again) != 2 {
			t.Fatal(len(again), err)
		}
		for i := range again {
			if math.Abs(again[i].Value-records[i].Value) > 1 { // Features are rounded otherwise at another place of a batch.
				t.Errorf("%v: %s is %g, was %g", set, again[i].Column, again[i].Value, records[i].Value)
			}
		}
	}

	results, err := Study.Load(study.Options{Out: out, Profile: study.Smoke})
	if err != nil {
		t.Fatal(err)
	}
	tables := Study.Tables(results)
	if len(tables) != 4 {
		t.Fatal(len(tables))
	}
	for i, table := range tables {
		if rows := []int{9, 9, 1, 1}[i]; len(table.Rows) != rows {
			t.Errorf("%s has %d rows, want %d", table.Title, len(table.Rows), rows)
		}
	}
	if got := tables[2].Rows[0].Cells[0].Ours; len(got) != 1 || got[0] != records[0].Value {
		t.Errorf("the table has %v for %g", got, records[0].Value)
	}
	predictions, classes, err := Predictions(results, testbackend.Go(t), "", out, encoders.Random, "synthetic scenes/FCN", 3)
	if err != nil || len(predictions) != 3 || len(classes) != 7 {
		t.Fatalf("%d predictions of %d classes, %v", len(predictions), len(classes), err)
	}
	for _, p := range predictions {
		if len(p.Predicted) != 64*64 || len(p.Image.Mask) != 64*64 {
			t.Errorf("%d pixels are predicted of %d", len(p.Predicted), len(p.Image.Mask))
		}
	}
	sheet := figures.SegmentationGrid("x", predictions, classes)
	if _, _, err := figures.Render(sheet); err != nil || len(sheet.Images[2]) != 3 || len(sheet.Legend) < 2 {
		t.Errorf("a sheet of %d predictions and %d classes, %v", len(sheet.Images[2]), len(sheet.Legend), err)
	}
}

// TestTransferStoppedGoesOn stops a run in its midst; it then ends as it would have.
func TestTransferStoppedGoesOn(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	whole, stopped := t.TempDir(), t.TempDir()
	b := testbackend.Go(t)
	options := study.Options{Profile: study.Smoke, Out: whole, Only: []string{"*/*/linear"}, Set: []string{"samples=400"}}
	if err := Study.Run(context.Background(), b, options); err != nil {
		t.Fatal(err)
	}
	options.Out = stopped
	for range 3 {
		ctx, stop := context.WithCancel(context.Background())
		options.Bar = func(string, int) progress.Bar { return &stopper{left: 30, stop: stop} }
		if err := Study.Run(ctx, b, options); err == nil {
			t.Fatal("the run was not stopped")
		}
		stop()
	}
	options.Bar = nil
	if err := Study.Run(context.Background(), b, options); err != nil {
		t.Fatal(err)
	}
	var values []float64
	for _, out := range []string{whole, stopped} {
		records, err := study.Records(study.Folder(out, Name))
		if err != nil || len(records) != 1 {
			t.Fatal(len(records), err)
		}
		values = append(values, records[0].Value, records[0].Details["loss"])
	}
	if values[0] != values[2] || values[1] != values[3] {
		t.Errorf("mIoU and loss %v without a stop, %v with three", values[:2], values[2:])
	}
}

// stopper is a bar that stops the run after a number of its steps.
type stopper struct {
	left int
	stop func()
}

func (s *stopper) Set(_ int, note string) {
	if strings.Contains(note, "loss") {
		s.left--
	}
	if s.left == 0 {
		s.stop()
	}
}
func (*stopper) Resumed(int)  {}
func (*stopper) Phase(string) {}
func (*stopper) Close()       {}

// export writes random weights.
func export(t *testing.T, path string, seed int) {
	t.Helper()
	vit, store, err := encoders.Encoder{Architecture: "vit-tiny"}.Load(seed)
	if err := errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o755), weights.Export(path, weights.Timm, store, "/", vit, nil, nil)); err != nil {
		t.Fatal(err)
	}
}

// pretend leaves in out what the experiment pretrain does.
func pretend(t *testing.T, out string) {
	t.Helper()
	config := recipe.ProfileConfig(study.Smoke, false)
	config.Second.Encoder = "vit-tiny"
	for i, row := range []string{recipe.RowAlignment, recipe.RowControl, recipe.RowMethod} {
		stage := []string{encoders.First, encoders.Control, encoders.Second}[i]
		r := study.Record{Experiment: recipe.Pretraining, Profile: study.Smoke, Cell: "synthetic/seed0", Row: row, Config: study.EncodeConfig(config), Curve: "cells/x/" + stage + "/curve.jsonl"}
		export(t, recipe.EncoderFile(out, r, stage), 7+i)
		if err := r.Append(study.Folder(out, recipe.Pretraining)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTransferRowsComeFromPretraining(t *testing.T) {
	out := t.TempDir()
	b := testbackend.Go(t)
	pretend(t, out)
	trained, err := filepath.Glob(filepath.Join(out, recipe.Pretraining, "*", "*", "second"))
	if err != nil || len(trained) != 1 {
		t.Fatalf("%v, %v", trained, err)
	}
	if err := os.WriteFile(filepath.Join(trained[0], "correspondences.json"), []byte(`{"gate":1.5}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := runTransferSmoke(t, out); err != nil {
		t.Fatal(err)
	}
	for _, r := range studytest.Records(t, out, Name) {
		if gate, gated := r.Details[study.DetailGate]; gated != (r.Row == encoders.Second) || gated && gate != 1.5 {
			t.Errorf("%s: the gate is %g, recorded: %t", r.Cell, gate, gated)
		}
	}
	results, err := Study.Load(study.Options{Out: out, Profile: study.Smoke})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{encoders.Random, encoders.First, encoders.Control, encoders.Second} {
		for _, column := range []string{"synthetic scenes/Linear", "synthetic scenes/FCN"} {
			if got := results.Values(row, column); len(got) != 1 {
				t.Errorf("%d numbers for %s, %s", len(got), row, column)
			}
		}
	}
	linear := func(row string) float64 { return results.Values(row, "synthetic scenes/Linear")[0] }
	gain := func(part string) []float64 {
		return results.Evidence(encoders.Random, studytest.Claim("C22", part))[0].Values
	}
	if gains := gain("own on synthetic scenes"); len(gains) != 1 || gains[0] != linear(encoders.Second)-linear(encoders.Control) {
		t.Errorf("gains %v", gains)
	}
	if gains := gain("DINO on PASCAL VOC"); gains != nil {
		t.Errorf("gains %v without runs", gains)
	}

	// An encoder is the same wherever its file lies.
	moved := t.TempDir()
	if err := os.CopyFS(moved, os.DirFS(out)); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(out); err != nil {
		t.Fatal(err)
	}
	if predictions, _, err := Predictions(results, b, "", moved, encoders.Second, "synthetic scenes/Linear", 2); err != nil || len(predictions) != 2 {
		t.Errorf("%d predictions from a folder that was copied: %v", len(predictions), err)
	}
	if err := runTransferSmoke(t, moved); err != nil {
		t.Fatal(err)
	}
	if records, err := study.Records(study.Folder(moved, Name)); err != nil || len(records) != 8 {
		t.Errorf("%d records in a copy of 8, %v", len(records), err)
	}
}

// TestTransferMeasuresItsClaim: made-up records in which the full method gains 4 points of linear mIoU from DINO on PASCAL VOC.
func TestTransferMeasuresItsClaim(t *testing.T) {
	var records []study.Record
	for row, value := range map[string]float64{"dino-s16": 50, "dino+ours-s16": 54, encoders.First: 70} {
		config := grid.Defaults(study.Full, "voc2012", heads.Linear)
		config.Encoder = encoders.Encoder{Row: row, Digest: row}
		records = append(records, study.Record{Profile: study.Full, Cell: "voc2012/" + row + "/linear/seed0", Row: row, Column: "PASCAL VOC/Linear",
			Config: study.EncodeConfig(config), Value: value, Data: "PASCAL VOC"})
	}
	results, err := Study.Results(records, study.Full)
	if err != nil {
		t.Fatal(err)
	}
	gain := func(part string) []float64 {
		return results.Evidence(encoders.Random, studytest.Claim("C22", part))[0].Values
	}
	if gains := gain("DINO on PASCAL VOC"); !slices.Equal(gains, []float64{4}) {
		t.Errorf("DINO's weights: %v", gains)
	}
	if gains := gain("Mugs on PASCAL VOC"); gains != nil {
		t.Errorf("Mugs, which has not been run: %v", gains)
	}
	tables := Study.Tables(results)
	if len(tables) != 4 {
		t.Fatal(len(tables))
	}
	for i, want := range map[int]string{0: "71.5 / **54.0** (−17.5)", 2: "| alignment | **70.0** |"} {
		if text := tables[i].Markdown(); !strings.Contains(text, want) || strings.Contains(text, "other settings") {
			t.Errorf("table %d has no %q:\n%s", i, want, text)
		}
	}
}

func TestTransferSaysWhatIsWrong(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.safetensors")
	if err := os.WriteFile(file, []byte("x"), 0o666); err != nil {
		t.Fatal(err)
	}
	tiny := filepath.Join(t.TempDir(), "tiny.safetensors")
	export(t, tiny, 1)
	for set, want := range map[string]string{
		"weights=x":                "no key \"weights\"",
		"weights.random=x":         `no row "random"; want one of dino-s16, ibot-s16, leopart-s16`,
		"weights.dino-s16=" + tiny: "holds vit-tiny, which does not fit row dino-s16",
		"head=fcn":                 "--set head=fcn: choose heads with --only '*/*/fcn/*'",
		"encoder.row=first":        "weights.ROW=FILE",
		"swin.batch=1":             `no key "swin"`,
		"rates=[0,1,2,3]":          "rates 0 is not above 0",
		"train=17":                 "train 17 and test 32 are not both made of patches of 8",
		"min_area=2":               "min_area 2 is not",
		"shares=2":                 "shares and classes: synthetic",
		"classes=cat":              "shares and classes: synthetic",
		"samples=0":                "samples 0 is not at least 1",
		"cache_gib=-1":             "cache_gib -1 is not",
		"images=1":                 "images 1 is not between 2",
		"weights.dino-s16=/none/x": "open /none/x: no such file or directory",
		"weights.dino-s16=" + file: file + ": ",
		"fcn.width=0":              "width 0 is not between 1 and 4096",
		"synthetic.crops=-1":       "crops -1 is not",
		"width=\"many\"":           `"\"many\"" is not a number like 4`,
	} {
		err := runTransferSmoke(t, t.TempDir(), set)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want one line with %q", set, err, want)
		}
	}
	for profile, want := range map[study.Profile]string{study.Full: "the full profile needs --data DIR", study.Quick: "none of COCO, PASCAL VOC, ADE20k, Cityscapes and CamVid is in "} {
		options := study.Options{Profile: profile, Out: t.TempDir()}
		if profile == study.Quick {
			options.Data = t.TempDir()
		}
		if err := Study.Run(context.Background(), testbackend.Go(t), options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", profile, err, want)
		}
	}
}

func TestHeldOutImagesAreNotTrainedOn(t *testing.T) {
	for images, want := range map[int][2]int{2: {1, 1}, 9: {7, 2}, 400: {334, 66}} {
		c := grid.Defaults(study.Quick, "synthetic", "linear")
		c.Images = images
		if images == 9 {
			c.Holdout = 2
		}
		d, err := open(study.Options{}, "synthetic", c, 0)
		if err != nil || len(d.trained) != want[0] || len(d.heldOut) != want[1] || len(d.tested) != images {
			t.Errorf("of %d images %d train, %d are held out, %d test, %v", images, len(d.trained), len(d.heldOut), len(d.tested), err)
		}
		for _, heldOut := range d.heldOut {
			if slices.Contains(d.trained, heldOut) {
				t.Errorf("image %d of %d is held out and trained on", heldOut, images)
			}
		}
	}
	if got := datasets.Spread(10, 4); !slices.Equal(got, []int{0, 2, 5, 7}) {
		t.Errorf("four of ten: %v", got)
	}
}

// TestTransferOnSamples runs each head on what there is of the real datasets.
func TestTransferOnSamples(t *testing.T) {
	dir := os.Getenv("SEMCON_DATA")
	if _, err := datasets.VOC(dir, datasets.Train); err != nil {
		t.Logf("no sample of PASCAL VOC: %v", err)
		return
	}
	out := t.TempDir()
	err := Study.Run(context.Background(), testbackend.Go(t), study.Options{
		Profile: study.Quick, Out: out, Data: dir, Seeds: 1, Only: []string{"*/random"},
		Set: []string{"train=16", "test=32", "crops=1", "batch=4", "samples=8", "width=4", "images=6", "holdout=3", "shares=1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	records, err := study.Records(study.Folder(out, Name))
	if err != nil || len(records) < 2 {
		t.Fatal(len(records), err)
	}
	for _, r := range records {
		t.Logf("%s: mIoU %.1f, accuracy %.1f, %s", r.Column, r.Value, r.Details["accuracy"], r.Data)
	}
}

// TestTransferTakesTheClassesThatCount opens the share of a seed of PASCAL VOC with two of its classes.
func TestTransferTakesTheClassesThatCount(t *testing.T) {
	dir := os.Getenv("SEMCON_DATA")
	if _, err := datasets.VOC(dir, datasets.Train); err != nil {
		t.Logf("no sample of PASCAL VOC: %v", err)
		return
	}
	c := grid.Defaults(study.Quick, "voc2012", "linear")
	c.Classes, c.Shares = "background,cat", 2
	var identities []string
	for seed := range 2 {
		d, err := open(study.Options{Data: dir}, "voc2012", c, seed)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(d.Train.Classes, []string{"background", "cat"}) || len(d.tested) != d.Test.Len() {
			t.Errorf("classes %q, %d of %d images test", d.Train.Classes, len(d.tested), d.Test.Len())
		}
		identities = append(identities, d.Identity())
	}
	if identities[0] != identities[1] {
		t.Errorf("identities %q differ", identities)
	}
	c.Classes = "unicorn"
	if _, err := open(study.Options{Data: dir}, "voc2012", c, 0); err == nil || !strings.Contains(err.Error(), `--set classes=unicorn: PASCAL VOC has no class "unicorn"`) {
		t.Errorf("another class: %v", err)
	}
}
