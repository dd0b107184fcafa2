package video

import (
	"context"
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/weights"
)

func runVideoSmoke(t *testing.T, b compute.Backend, options Options) []Record {
	t.Helper()
	options.Profile = Smoke
	if err := video.Run(context.Background(), b, options); err != nil {
		t.Fatal(err)
	}
	records, err := Records(folderOf(options.Out, Video))
	if err != nil {
		t.Fatal(err)
	}
	return records
}

func TestVideoRunsOnEachBackendAndGoesOn(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		out := t.TempDir()
		first := runVideoSmoke(t, b, Options{Out: out, Only: []string{"*/random/seed1"}})
		if len(first) != 1 || first[0].Cell != "synthetic/random/seed1" {
			t.Fatalf("%+v", first)
		}
		all := runVideoSmoke(t, b, Options{Out: out})
		if len(all) != 3 || all[0].Cell != first[0].Cell {
			t.Fatalf("%d records", len(all))
		}
		whole := runVideoSmoke(t, b, Options{Out: t.TempDir()})
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
	exportRandom(t, tiny, "vit-tiny")
	for _, c := range []struct{ set, only, data, want string }{
		{set: "speed=1", want: `"speed"`},
		{set: "propagation.k=0", want: "k 0"},
		{set: "frames=2", want: "frames"},
		{set: "encoder.row=second", want: "weights.ROW=FILE"},
		{set: "weights.dino=x.pth", want: `no row "dino"; the rows are dino-s16, ibot-s16`},
		{set: "weights.dino-s16=no-such-file", want: "no-such-file"},
		{set: "weights.dino-s16=" + tiny, want: "holds vit-tiny, which row dino-s16 is not of"},
		{only: "synthetic/second", want: `no row "second"`},
	} {
		options := Options{Profile: Smoke, Out: t.TempDir(), Data: c.data}
		if c.set != "" {
			options.Set = []string{c.set}
		}
		if c.only != "" {
			options.Only = []string{c.only}
		}
		err := video.Run(context.Background(), testbackend.Fastest(t), options)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: %v, want %q", c, err, c.want)
		}
		if records, err := Records(folderOf(options.Out, Video)); err != nil || len(records) > 0 {
			t.Errorf("%+v: found after %d runs, %v", c, len(records), err)
		}
	}
	if err := video.Run(context.Background(), nil, Options{Profile: Full, Out: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "--data") {
		t.Errorf("full without data: %v", err)
	}
	err := video.Run(context.Background(), nil, Options{Profile: Quick, Data: t.TempDir(), Out: t.TempDir()})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("quick with an empty data folder: %v", err)
	}
}

// exportRandom writes random weights to a file.
func exportRandom(t *testing.T, path, architecture string) {
	t.Helper()
	vit, store, err := randomViT(architecture, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := weights.ExportViT(path, store, "/", vit, nil, nil); err != nil {
		t.Fatal(err)
	}
}

func TestFrozenCellsTakeAFileForEachSeed(t *testing.T) {
	dir := t.TempDir()
	vit, store, err := randomViT("vit-s16", 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, seed := range []string{"0", "1", "2"} {
		if err := weights.ExportViT(filepath.Join(dir, "dino"+seed+".safetensors"), store, "/", vit, nil, map[string]string{"seed": seed}); err != nil {
			t.Fatal(err)
		}
	}
	options := Options{Set: []string{"weights.dino-s16=" + dir + "/dino{seed}.safetensors", "k=1", "weights.ibot-s16=" + dir + "/dino0.safetensors"}}
	cells, rest, err := frozenCells(options, "video_seg", "vit-tiny", 3)
	if err != nil || len(rest) != 1 || rest[0] != "k=1" {
		t.Fatalf("%v, %v", rest, err)
	}
	counts, digests := map[string]int{}, map[string]bool{}
	for _, c := range cells {
		counts[c.Row]++
		digests[c.Digest] = true
	}
	if want := map[string]int{"random": 3, "dino-s16": 3, "ibot-s16": 1}; !maps.Equal(counts, want) || len(digests) != 4 {
		t.Errorf("cells %v, %d digests", counts, len(digests))
	}
}

func TestFrozenEncoderOpensWhatWasWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tiny.safetensors")
	exportRandom(t, path, "vit-tiny")
	vit, store, err := frozenEncoder{Row: keySecond, Weights: path}.open(0)
	if err != nil || vit.Name != "vit-tiny" {
		t.Fatalf("%+v, %v", vit, err)
	}
	_, random, err := randomViT("vit-tiny", 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range (encoder.ViT{Dim: vit.Dim, Depth: vit.Depth, Patch: vit.Patch, Side: vit.Side}).Weights() {
		a, b := store.GetVariable("/"+w.Path), random.GetVariable("/"+w.Path)
		if a == nil || b == nil || !a.MustValue().Equal(b.MustValue()) {
			t.Errorf("%s is not what was written", w.Path)
		}
	}
}

// TestVideoJudgesItsClaim: made-up records in which the full method gains 2 points from DINO and 1 from our own alignment.
func TestVideoJudgesItsClaim(t *testing.T) {
	out := t.TempDir()
	add := func(row, dataset string, seed int, value float64, read bool) {
		config := videoConfig(Quick, read)
		config.Encoder.Row = row
		r := Record{Experiment: Video, Profile: Quick, Row: row, Column: dataset, Seed: seed, Value: value, Data: dataset + " videos",
			Details: map[string]float64{"J_mean": value - 1, "F_mean": value + 1}, Config: configJSON(config)}
		if err := r.Append(folderOf(out, Video)); err != nil {
			t.Fatal(err)
		}
	}
	judge := func() map[string][]float64 {
		results, err := LoadVideo(out, Quick)
		if err != nil {
			t.Fatal(err)
		}
		gains := map[string][]float64{}
		for _, part := range []string{"DINO", "iBOT", "Mugs", "own on DAVIS", "own on synthetic videos"} {
			if values, _ := results.Gain(part); values != nil {
				gains[part] = values
			}
		}
		return gains
	}
	for seed := range 3 {
		add(keyFirst, "synthetic videos", seed, 50+float64(seed), false)
		add(keySecond, "synthetic videos", seed, 51+float64(seed)+0.1*float64(seed), false)
	}
	if gains := judge(); len(gains) != 1 || len(gains["own on synthetic videos"]) != 3 || math.Abs(gains["own on synthetic videos"][2]-1.2) > 1e-9 {
		t.Errorf("our own training: %v", gains)
	}
	add("dino-s16", "DAVIS", 0, 62, true)
	add("dino+ours-s16", "DAVIS", 0, 64, true)
	if gains := judge(); len(gains) != 2 || len(gains["DINO"]) != 1 || gains["DINO"][0] != 2 {
		t.Errorf("DINO's weights: %v", gains)
	}
	board, err := Claims(out, Quick)
	if err != nil || board.Verdicts()["C23"] != figures.Open {
		t.Errorf("scoreboard: %v, %v", board.Verdicts()["C23"], err)
	}
	records, err := Records(folderOf(out, Video))
	if err != nil {
		t.Fatal(err)
	}
	tables, err := video.Tables(records, Quick)
	if err != nil || len(tables) != 3 {
		t.Fatalf("%d tables, %v", len(tables), err)
	}
	for i, want := range []string{"| DINO + Ours | ViT-S/16 | 64.8 / **64.0** (−0.8) | 63.1 / **63.0** (−0.1) |", "| DINO + Ours | ViT-S/16 | **64.0** |", "| full method |  | **52.1 ± 1.1** |"} {
		if text := tables[i].Markdown(); !strings.Contains(text, want) {
			t.Errorf("table %d has no %q:\n%s", i, want, text)
		}
	}
}

func TestVideoSheetShowsTruthAndEncoders(t *testing.T) {
	b := testbackend.Fastest(t)
	sheet, err := VideoSheet(context.Background(), b, Options{Profile: Smoke, Out: t.TempDir()}, 1, 3)
	if err != nil || len(sheet.Images) != 2 || len(sheet.Images[1]) != 3 || strings.Join(sheet.RowLabels, " ") != "truth random init" {
		t.Fatalf("%v of %d rows, %v", sheet.RowLabels, len(sheet.Images), err)
	}
	if sheet.ColumnLabels[2] != "frame 3" {
		t.Errorf("columns %v", sheet.ColumnLabels)
	}
	if _, _, err := sheet.Render(); err != nil {
		t.Error(err)
	}
	if _, err := VideoSheet(context.Background(), b, Options{Profile: Smoke, Out: t.TempDir()}, 2, 3); err == nil || !strings.Contains(err.Error(), "there are 2 videos") {
		t.Errorf("a video that there is not: %v", err)
	}
}
