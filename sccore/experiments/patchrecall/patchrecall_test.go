package patchrecall

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/analysis/stats"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/encoders"
	"github.com/semcon/semcon/sccore/study/studytest"
)

// TestRecallRecordsAndTables: random features tell classes of synthetic scenes apart better than chance, and the tables have the rows, their differences, and
// the same without background.
func TestRecallRecordsAndTables(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		records := studytest.Smoke(t, Study.Experiment(), b, study.Options{Out: t.TempDir(), Seeds: 1})
		if len(records) != 2 {
			t.Fatalf("%d records", len(records))
		}
		for _, r := range records {
			chance := r.Details[detailChance]
			if chance < 14 || chance > 51 || r.Value <= chance+5 || r.Value > 100 || r.Details[detailForeground] <= 0 {
				t.Errorf("%s %s: recall %g, chance %g, without background %g", r.Cell, r.Column, r.Value, chance, r.Details[detailForeground])
			}
			if !strings.Contains(r.Protocol, "classes background, ") || !strings.Contains(r.Protocol, "drawn for the seed") {
				t.Errorf("protocol %q", r.Protocol)
			}
		}
		// Another seed, and other encoders with other values, so that rows can be told apart.
		for _, r := range records[:2] {
			r.Seed, r.Cell = 1, strings.Replace(r.Cell, "seed0", "seed1", 1)
			records = append(records, r)
		}
		for i, row := range []string{encoders.First, encoders.Control, encoders.Second} {
			for _, r := range records[:4] {
				r.Row, r.Cell = row, strings.Replace(r.Cell, encoders.Random, row, 1)
				r.Value += float64(1+i*i) + float64(r.Seed*i)/2
				records = append(records, r)
			}
		}
		tables, err := Study.Experiment().Tables(records, study.Smoke)
		if err != nil || len(tables) != 3 {
			t.Fatalf("%d tables, %v", len(tables), err)
		}
		table, gains := tables[0], tables[1]
		if len(table.Rows) != 4 || len(gains.Rows) != 3 || !slices.Equal(table.Columns, []string{"synthetic scenes/linear", "synthetic scenes/k-NN"}) {
			t.Fatalf("columns %v, rows %+v", table.Columns, table.Rows)
		}
		for line, want := range [][]float64{{1, 1}, {5, 6}, {3, 3.5}} { // Alignment − random weights, the full method − these, and the full method − its control.
			for i, cell := range gains.Rows[line].Cells {
				if len(cell.Ours) != 2 || !(math.Abs(cell.Ours[0]-want[0]) <= 1e-9) || !(math.Abs(cell.Ours[1]-want[1]) <= 1e-9) {
					t.Errorf("%s, column %d: %v, want %v", gains.Rows[line].Heads, i, cell.Ours, want)
				}
			}
		}
		for i, want := range map[int]float64{0: records[0].Details[detailChance], 2: records[0].Details[detailForegroundChance]} {
			if said := fmt.Sprintf("Chance is %.1f %% on synthetic scenes.", want); want < 14 || !strings.Contains(tables[i].Caption, said) {
				t.Errorf("caption %q, want %q", tables[i].Caption, said)
			}
		}
	})
}

// TestRecallOfAFolder: each seed tests on all images of a dataset, and records have the counts of each image. Classes without patches are left out.
func TestRecallOfAFolder(t *testing.T) {
	dir := t.TempDir()
	writeVOC(t, dir)
	out := t.TempDir()
	records := studytest.Smoke(t, Study.Experiment(), testbackend.Soonest(t), study.Options{Out: out, Data: dir, Seeds: 2})
	if len(records) != 4 {
		t.Fatalf("%d records", len(records))
	}
	for _, r := range records {
		if !strings.Contains(r.Protocol, "classes background, ") || strings.Contains(r.Protocol, "tvmonitor") || !strings.Contains(r.Protocol, "all test images") {
			t.Errorf("protocol %q", r.Protocol)
		}
		var counts stats.ByImage
		content, err := os.ReadFile(r.File(out, r.Images))
		if errors.Join(err, json.Unmarshal(content, &counts)) != nil || len(counts) != 20 || !(math.Abs(counts.Score(nil)-r.Value) <= 1e-9) {
			t.Errorf("%s: recall %g, by image %g of %d images, want 20, %v", r.Cell, r.Value, counts.Score(nil), len(counts), err)
		}
	}
}

// writeVOC writes synthetic scenes in the layout of PASCAL VOC.
func writeVOC(t *testing.T, dir string) {
	t.Helper()
	palette := make(color.Palette, 256)
	for i := range palette {
		palette[i] = color.RGBA{uint8(i), uint8(i), uint8(i), 255}
	}
	write := func(file string, encode func(w io.Writer) error) {
		path := filepath.Join(dir, "VOC2012", file)
		var b bytes.Buffer
		if err := errors.Join(encode(&b), os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, b.Bytes(), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for i, split := range []string{"train", "val"} {
		scenes, names := synthetic.Scenes(20, 32, uint64(i)).Segmentation(), ""
		for k := range scenes.Len() {
			scene, err := scenes.Read(k)
			if err != nil {
				t.Fatal(err)
			}
			name := fmt.Sprintf("%s_%d", split, k)
			names += name + "\n"
			mask := &image.Paletted{Pix: scene.Mask, Stride: scene.Width, Rect: image.Rect(0, 0, scene.Width, scene.Height), Palette: palette}
			write("JPEGImages/"+name+".jpg", func(w io.Writer) error { return jpeg.Encode(w, scene.Image(), nil) })
			write("SegmentationClass/"+name+".png", func(w io.Writer) error { return png.Encode(w, mask) })
		}
		write("ImageSets/Segmentation/"+split+".txt", func(w io.Writer) error { _, err := io.WriteString(w, names); return err })
	}
}

func TestRecallOptions(t *testing.T) {
	for set, want := range map[string]string{
		"purity=0.4": "purity 0.4", "per_class=0": "per_class 0", "least=5000": "least 5000", "least=0": "least 0", "size=0": "size 0", "images=1": "images 1", "encoder.row=first": "weights.ROW=FILE",
	} {
		options := study.Options{Profile: study.Smoke, Out: t.TempDir(), Set: []string{set}}
		if err := Study.Run(context.Background(), nil, options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--set %s: %v, want %q", set, err, want)
		}
	}
	if err := Study.Run(context.Background(), nil, study.Options{Profile: study.Full, Out: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "--data") {
		t.Errorf("full without data: %v", err)
	}
}
