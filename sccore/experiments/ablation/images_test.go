package ablation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/flock"
	"github.com/semcon/semcon/analysis/stats"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/recipe/maintable"
	"github.com/semcon/semcon/sccore/study"
)

// ablationImages writes small pictures in the layouts of ImageNet and COCO below dir: dark and bright ones in class folders, and scenes with sky above
// and water below.
func ablationImages(t *testing.T, dir string) {
	t.Helper()
	write := func(file string, encode func(io.Writer, image.Image) error, upper, lower uint8) {
		t.Helper()
		picture := image.NewGray(image.Rect(0, 0, 48, 48))
		for p := range picture.Pix {
			if picture.Pix[p] = upper; p >= len(picture.Pix)/2 {
				picture.Pix[p] = lower
			}
		}
		path := filepath.Join(dir, filepath.FromSlash(file))
		var content bytes.Buffer
		if err := errors.Join(encode(&content, picture), os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content.Bytes(), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	asJPEG := func(w io.Writer, picture image.Image) error { return jpeg.Encode(w, picture, nil) }
	for i := range uint8(6) {
		for _, split := range []string{"train", "val"} {
			write(fmt.Sprintf("imagenet/%s/n%d/%d.png", split, i%2, i), png.Encode, 200*(i%2)+i, 200*(i%2)+3*i)
		}
		for _, split := range []string{"train2017", "val2017"} {
			write(fmt.Sprintf("coco/%s/%d.jpg", split, i), asJPEG, 40+i, 200+i)
			write(fmt.Sprintf("coco/stuffthingmaps/%s/%d.png", split, i), png.Encode, 157-1, 155-1)
		}
	}
}

// TestAblationReadsImages runs on pictures of which first some and then all have labels, and from the weights that the first stage left.
func TestAblationReadsImages(t *testing.T) {
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		t.Fatal(err)
	}
	dir, out := t.TempDir(), t.TempDir()
	ablationImages(t, dir)
	var warned []string
	trained := false
	run := func(set []string, only ...string) ([]study.Record, error) {
		t.Helper()
		warned, trained = nil, false
		err := Study.Run(t.Context(), b, study.Options{
			Profile: study.Smoke, Data: dir, Out: out, Only: only, Set: append(set, "first.steps=3", "second.steps=2", "second.momentum=0.9", "knn.k=3"),
			CheckpointEvery: time.Minute, Warn: func(line string) {
				if !strings.Contains(line, "recall over patches") { // There is no PASCAL VOC.
					warned = append(warned, line)
				}
			}, Watch: func(string, []study.Point) { trained = true },
		})
		records, failed := study.Records(filepath.Join(out, Name))
		if failed != nil {
			t.Fatal(failed)
		}
		return records, err
	}
	hide := func(folder string) (show func()) {
		t.Helper()
		path := filepath.Join(dir, filepath.FromSlash(folder))
		if err := os.Rename(path, path+".hidden"); err != nil {
			t.Fatal(err)
		}
		return func() {
			if err := os.Rename(path+".hidden", path); err != nil {
				t.Fatal(err)
			}
		}
	}

	showMaps, showVal := hide("coco/stuffthingmaps"), hide("imagenet/val")
	records, err := run(nil)
	if err == nil || !strings.Contains(err.Error(), "neither ImageNet with labels nor COCOStuff-27 is in "+dir) || trained || len(records) > 0 {
		t.Errorf("without labels %d records, %v", len(records), err)
	}
	showVal()
	rows := []string{"images/random", "images/stage1", "images/line4"}
	records, err = run(nil, rows...)
	if err != nil || len(records) != 3*2 || !trained {
		t.Fatalf("%d records, %v", len(records), err)
	}
	if len(warned) != 1 || !strings.HasPrefix(warned[0], "skipped the columns of linear segmentation: no COCOStuff-27") {
		t.Errorf("warned of %q", warned)
	}
	showMaps()
	for range 2 {
		if records, err = run(nil, rows...); err != nil || len(records) != 3*4 || trained || len(warned) > 0 {
			t.Fatalf("with all labels %d records, trained again: %t, warned of %q, %v", len(records), trained, warned, err)
		}
	}
	values := map[string]float64{}
	for _, r := range records {
		values[r.Row+" "+r.Column] = r.Value
		if !strings.HasPrefix(r.Cell, "images/") || !strings.Contains(r.Data, "folder train2017: 6 files") || !strings.Contains(r.Data, "; measured on ") {
			t.Errorf("%s on %s", r.Cell, r.Data)
		}
		var counts stats.ByImage
		content, err := os.ReadFile(r.File(out, r.Images))
		if r.Column != maintable.ColumnAccuracy && (errors.Join(err, json.Unmarshal(content, &counts)) != nil || math.Abs(counts.Score(nil)-r.Value) > 1e-9) {
			t.Errorf("%s of %s is %g, by image %g of %d images, %v", r.Column, r.Row, r.Value, counts.Score(nil), len(counts), err)
		}
	}
	if values[recipe.RowAlignment+" "+maintable.ColumnKNN] < 90 { // Chance is 50, of two classes.
		t.Errorf("k-NN accuracy %.0f of dark and bright pictures", values[recipe.RowAlignment+" "+maintable.ColumnKNN])
	}

	found, err := filepath.Glob(filepath.Join(out, Name, "cells", "*", "first", "online.safetensors"))
	if err != nil || len(found) != 1 {
		t.Fatalf("encoders %v, %v", found, err)
	}
	lock := flock.New(filepath.Join(filepath.Dir(found[0]), "lock"))
	if taken, err := lock.TryLock(); err != nil || !taken {
		t.Fatal(taken, err)
	}
	records, err = run(nil, "images/line6")
	if err != nil || len(records) != 3*4 || trained || len(warned) != 2 || !strings.HasPrefix(warned[1], "skipped images/line6/seed0: it starts from images/stage1/seed0") {
		t.Errorf("while another process is at it: %d records, warned of %q, %v", len(records), warned, err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if records, err = run([]string{"init=" + found[0]}, "images/init", "images/line7"); err != nil || len(records) != (3+3)*4 || !trained {
		t.Fatalf("from weights %d records, %v", len(records), err)
	}
	for _, r := range records[3*4:] {
		if r.Row == recipe.RowInit && r.Value != values[recipe.RowAlignment+" "+r.Column] {
			t.Errorf("%s is %g of the file, %g of the stage that wrote it", r.Column, r.Value, values[recipe.RowAlignment+" "+r.Column])
		}
		if !strings.Contains(r.Data, "; weights online.safetensors, sha256 ") {
			t.Errorf("%s on %s", r.Cell, r.Data)
		}
	}
	tables, err := Study.Experiment().Tables(records[3*4:], study.Smoke)
	if err != nil || len(tables) != 3 || !tables[2].PaperAlone() { // The classes are not ImageNet-1k's.
		t.Fatalf("%d tables, %v", len(tables), err)
	}
	last := tables[1].Rows[len(tables[1].Rows)-1]
	if !strings.HasPrefix(last.Heads[0], "line 7 − initialisation") || len(last.Cells[0].Ours) != 1 || !math.IsNaN(last.Cells[0].Paper) {
		t.Errorf("last row %+v", last)
	}
	if !strings.Contains(tables[0].Caption, "from the same weights. Segmentation of COCOStuff-27") {
		t.Errorf("caption %s", tables[0].Caption)
	}

	// The full profile, made small.
	full := study.Options{Profile: study.Full, Data: dir, Out: t.TempDir(), Seeds: 1, CheckpointEvery: time.Minute, Only: []string{"images/init", "images/line6"}, Set: []string{
		"init=" + found[0], "first.encoder=vit-32x3x4p8-grid6", "second.encoder=vit-32x3x4p8-grid6", "second.batch=8", "second.steps=2", "second.warmup=1",
		"second.bf16=false", "second.neighbours=2", "second.canvas=32", "second.views.global_size=24", "second.views.Locals=0", "second.image_head.hidden=16", "second.image_head.out=8",
		"second.patch_head.hidden=16", "second.patch_head.out=8", "size=32", "segmentation.train=32", "segmentation.test=32", "segmentation.batch=2", "knn.k=3",
	}}
	if err := Study.Run(t.Context(), b, full); err != nil {
		t.Fatal(err)
	}
	if records, err = study.Records(filepath.Join(full.Out, Name)); err != nil || len(records) != 2*4 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	if tables, err = Study.Experiment().Tables(records, study.Full); err != nil || len(tables) != 3 {
		t.Fatalf("%d tables, %v", len(tables), err)
	}
	if caption := tables[0].Caption; strings.Contains(caption, "init=") || !strings.Contains(caption, "size=32") {
		t.Errorf("caption %s", caption)
	}
}

// TestAblationOnImagesCountsBeforeSynthetic judges and shows made-up numbers of both kinds of images.
func TestAblationOnImagesCountsBeforeSynthetic(t *testing.T) {
	out := t.TempDir()
	var records []study.Record
	for dataset, gain := range map[string]float64{"images": 3, "synthetic": -2} {
		for seed := range 3 {
			for row, value := range map[string]float64{"1": 50, "4": 50 + gain} {
				records = append(records, study.Record{
					Cell: newCell(dataset, row, seed, maintable.Config{}).Name(), Row: row, Column: maintable.ColumnKNN, Value: value, Seed: seed, Profile: study.Quick,
					Config: study.EncodeConfig(maintable.ProfileConfig(study.Quick, dataset == "images")), Data: dataset + " made up",
				})
				if err := records[len(records)-1].Append(filepath.Join(out, Name)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	evidence, err := Study.Experiment().Measure(records, study.Quick, figures.Real, figures.Claims()...)
	if err != nil {
		t.Fatal(err)
	}
	for i, claim := range figures.Claims() {
		if claim.ID == "C15" && !(slices.Equal(evidence[i].Values, []float64{3, 3, 3}) && slices.Equal(evidence[i].Data, []string{"images made up"})) {
			t.Errorf("C15 is %+v", evidence[i])
		}
	}
	all, err := Study.Load(study.Options{Out: out, Profile: study.Quick})
	results := all.Kinds()[0]
	if err != nil {
		t.Fatal(err)
	}
	trade := TradeOff(results) // The images have no labels of segmentation: the panel is empty.
	if ours := trade.Panels[0].Series[0]; !strings.Contains(trade.Title, "on images") || len(ours.XValues[3]) != 0 {
		t.Errorf("%s: %+v", trade.Title, ours)
	}
	if _, _, err := figures.Render(trade); err != nil {
		t.Error(err)
	}
	for _, record := range records[:2*3] { // Where recall over patches is measured, it stands for segmentation.
		record.Column = recipe.ColumnRecall
		if err := record.Append(filepath.Join(out, Name)); err != nil {
			t.Fatal(err)
		}
	}
	all, err = Study.Load(study.Options{Out: out, Profile: study.Quick})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all.Kinds() {
		if panel := TradeOff(r).Panels[0]; strings.Contains(panel.Y, "recall") != (r.Of("4", recipe.ColumnRecall) != nil) || strings.Contains(panel.Y, "recall") != (len(panel.Series[0].XValues[3]) > 0) {
			t.Errorf("%s: %s, %v", r.Kind, panel.Y, panel.Series[0].XValues)
		}
	}
	tables, err := Study.Experiment().Tables(records, study.Quick)
	if err != nil || len(tables) != 5 || !tables[4].PaperAlone() { // Nothing synthetic compares with the printed numbers.
		t.Fatalf("%d tables, %v", len(tables), err)
	}
	for i, want := range []struct {
		title, data string
		value       float64
	}{{"Tab. ablation on images", "images made up", 53}, {"Tab. ablation on synthetic images", "synthetic made up", 48}} {
		table := tables[2*i]
		knn := slices.Index(table.Columns, maintable.ColumnKNN)
		got := table.Rows[slices.IndexFunc(table.Rows, func(row figures.Row) bool { return row.Heads[0] == "4" })].Cells[knn].Ours
		if table.Title != want.title || !slices.Equal(table.Data, []string{want.data}) || !slices.Equal(got, slices.Repeat([]float64{want.value}, 3)) {
			t.Errorf("%s of %q: line 4 is %v", table.Title, table.Data, got)
		}
	}
}
