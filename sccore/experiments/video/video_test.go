package video

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/encoders"
	"github.com/semcon/semcon/sccore/study/studytest"
	"github.com/semcon/semcon/sccore/weights"
)

func TestVideoRunsOnEachBackendAndGoesOn(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		out := t.TempDir()
		first := studytest.Smoke(t, Study.Experiment(), b, study.Options{Out: out, Only: []string{"*/random/seed1"}})
		if len(first) != 1 || first[0].Cell != "synthetic/random/seed1" {
			t.Fatalf("%+v", first)
		}
		all := studytest.Smoke(t, Study.Experiment(), b, study.Options{Out: out})
		if len(all) != 3 || all[0].Cell != first[0].Cell {
			t.Fatalf("%d records", len(all))
		}
		whole := studytest.Smoke(t, Study.Experiment(), b, study.Options{Out: t.TempDir()})
		again := map[string]float64{}
		for _, r := range whole {
			again[r.Cell] = r.Value
		}
		for _, r := range all {
			if again[r.Cell] != r.Value {
				t.Errorf("%s is %v and %v", r.Cell, r.Value, again[r.Cell])
			}
			if mean := (r.Details["J_mean"] + r.Details["F_mean"]) / 2; math.Abs(mean-r.Value) > 1e-9 || r.Value < 20 || r.Value > 100 {
				t.Errorf("%s: J&F %v of %v", r.Cell, r.Value, r.Details)
			}
		}
	})
}

func TestVideoOptions(t *testing.T) {
	tiny := filepath.Join(t.TempDir(), "tiny.safetensors")
	vit, store, err := encoders.Encoder{Architecture: "vit-tiny"}.Load(1)
	gate := os.WriteFile(filepath.Join(filepath.Dir(tiny), "correspondences.json"), []byte(`{"gate":1.5}`), 0o644)
	if err := errors.Join(err, gate, weights.Export(tiny, weights.Timm, store, "/", vit, nil, nil)); err != nil {
		t.Fatal(err)
	}
	// A name of the user's own adds a row.
	own := study.Options{Profile: study.Smoke, Out: t.TempDir(), Set: []string{"weights.my-model=" + tiny}, Only: []string{"*/my-model"}}
	if err := Study.Run(t.Context(), testbackend.Fastest(t), own); err != nil {
		t.Fatal(err)
	}
	results, err := Study.Load(own)
	for _, r := range studytest.Records(t, own.Out, Name) {
		if r.Details[study.DetailGate] != 1.5 { // That of the training that left the encoder.
			t.Errorf("%s: the gate is %v", r.Cell, r.Details)
		}
	}
	if err != nil || len(results.Rows()) != 1 {
		t.Fatal(results.Rows(), err)
	}
	if text, err := Study.Tables(results)[1].Format("md"); err != nil || !strings.Contains(text, "my-model") {
		t.Errorf("%v: %s", err, text)
	}
	for _, c := range []struct{ set, only, data, want string }{
		{set: "speed=1", want: `"speed"`},
		{set: "propagation.k=0", want: "k 0"},
		{set: "frames=2", want: "frames"},
		{set: "shares=2", want: "shares: synthetic videos are drawn"},
		{set: "encoder.row=second", want: "weights.ROW=FILE"},
		{set: "weights.di/no=x.pth", want: `no row "di/no"; want one of dino-s16, ibot-s16`},
		{set: "weights.dino-s16=no-such-file", want: "no-such-file"},
		{set: "weights.dino-s16=" + tiny, want: "holds vit-tiny, which does not fit row dino-s16"},
		{only: "synthetic/second", want: `no row "second"`},
	} {
		options := study.Options{Profile: study.Smoke, Out: t.TempDir(), Data: c.data}
		if c.set != "" {
			options.Set = []string{c.set}
		}
		if c.only != "" {
			options.Only = []string{c.only}
		}
		err := Study.Run(context.Background(), testbackend.Fastest(t), options)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: %v, want %q", c, err, c.want)
		}
		if records, err := study.Records(study.Folder(options.Out, Name)); err != nil || len(records) > 0 {
			t.Errorf("%+v: found after %d runs, %v", c, len(records), err)
		}
	}
	if err := Study.Run(context.Background(), nil, study.Options{Profile: study.Full, Out: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "--data") {
		t.Errorf("full without data: %v", err)
	}
	err = Study.Run(context.Background(), nil, study.Options{Profile: study.Quick, Data: t.TempDir(), Out: t.TempDir()})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("quick with an empty data folder: %v", err)
	}
}

// TestVideoMeasuresItsClaim: made-up records in which the full method gains 2 points from DINO and 1 from our own alignment.
func TestVideoMeasuresItsClaim(t *testing.T) {
	var records []study.Record
	add := func(row, dataset string, seed int, value float64) {
		config := grid.Defaults(study.Quick, dataset, "")
		config.Encoder.Row = row
		records = append(records, study.Record{
			Experiment: Name, Profile: study.Quick, Cell: dataset + "/" + row + "/seed", Row: row, Column: titles[dataset], Seed: seed, Value: value,
			Data: strings.Replace(dataset, davis, "DAVIS-2017 val:", 1) + " videos", Details: map[string]float64{"J_mean": value - 1, "F_mean": value + 1}, Config: study.EncodeConfig(config),
		})
	}
	measure := func() map[string][]float64 {
		gains := map[string][]float64{}
		for _, part := range []string{"DINO", "iBOT", "Mugs", "own on DAVIS", "own on synthetic videos"} {
			claim := studytest.Claim("C23", part)
			evidence, err := Study.Experiment().Measure(records, study.Quick, claim.Kind, claim)
			if err != nil || (evidence[0].Values == nil) != (evidence[0].Data == nil) {
				t.Fatal(evidence, err)
			}
			if evidence[0].Values != nil {
				gains[part] = evidence[0].Values
			}
		}
		return gains
	}
	for seed := range 3 {
		add(encoders.Control, "synthetic", seed, 50+float64(seed))
		add(encoders.Second, "synthetic", seed, 51+float64(seed)+0.1*float64(seed))
	}
	if gains := measure(); len(gains) != 1 || len(gains["own on synthetic videos"]) != 3 || math.Abs(gains["own on synthetic videos"][2]-1.2) > 1e-9 {
		t.Errorf("our own training: %v", gains)
	}
	add("dino-s16", davis, 0, 62)
	add("dino+ours-s16", davis, 0, 64)
	if gains := measure(); len(gains) != 2 || len(gains["DINO"]) != 1 || gains["DINO"][0] != 2 {
		t.Errorf("DINO's weights: %v", gains)
	}
	tables, err := Study.Experiment().Tables(records, study.Quick)
	if err != nil || len(tables) != 3 {
		t.Fatalf("%d tables, %v", len(tables), err)
	}
	for i, want := range []string{"| DINO + Ours | ViT-S/16 | 64.8 / **64.0** (−0.8) | 63.1 / **63.0** (−0.1) |", "| DINO + Ours | ViT-S/16 | **64.0** |", "| full method |  | **52.1 ± 1.1** |"} {
		if text := tables[i].Markdown(); !strings.Contains(text, want) {
			t.Errorf("table %d has no %q:\n%s", i, want, text)
		}
	}
	for i := range records {
		records[i].Data = strings.Replace(records[i].Data, "2017", "2016", 1)
	}
	if tables, err = Study.Experiment().Tables(records, study.Quick); err != nil || len(tables) != 3 || !tables[0].PaperAlone() {
		t.Errorf("numbers on DAVIS-2016 beside those on DAVIS-2017: %v", err)
	}
}

func TestVideoSheetShowsTruthAndEncoders(t *testing.T) {
	b := testbackend.Fastest(t)
	sheet, err := Sheet(context.Background(), b, study.Options{Profile: study.Smoke, Out: t.TempDir()}, 1, 3)
	if err != nil || len(sheet.Images) != 2 || len(sheet.Images[1]) != 3 || strings.Join(sheet.RowLabels, " ") != "truth random init" {
		t.Fatalf("%v of %d rows, %v", sheet.RowLabels, len(sheet.Images), err)
	}
	if sheet.ColumnLabels[2] != "frame 3" {
		t.Errorf("columns %v", sheet.ColumnLabels)
	}
	if _, _, err := figures.Render(sheet); err != nil {
		t.Error(err)
	}
	if _, err := Sheet(context.Background(), b, study.Options{Profile: study.Smoke, Out: t.TempDir()}, 2, 3); err == nil || !strings.Contains(err.Error(), "there are 2 videos") {
		t.Errorf("a video that there is not: %v", err)
	}
}
