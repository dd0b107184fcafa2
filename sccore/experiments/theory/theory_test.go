package theory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/png"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/semcon/semcon/analysis/theory"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/experiments/effectaug"
	"github.com/semcon/semcon/sccore/methods"
	"github.com/semcon/semcon/sccore/recipe/augmentation"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/studytest"
)

func TestTheoryOfTrainedEncoders(t *testing.T) {
	b := testbackend.Fastest(t)
	out := t.TempDir()
	options := study.Options{Profile: study.Smoke, Out: out, Parallel: 1}
	if err := Study.Run(context.Background(), b, options); err == nil || !strings.Contains(err.Error(), "semcon run effect-aug") {
		t.Fatalf("without encoders: %v", err)
	}
	trained := options
	trained.Only = []string{"*/simclr"}
	trained.Set = []string{"encoder=conv4-w2", "epochs=1", "batch=64"}
	if err := effectaug.Study.Run(context.Background(), b, trained); err != nil {
		t.Fatal(err)
	}
	options.Set = []string{"images=4"}
	if err := Study.Run(context.Background(), b, options); err != nil {
		t.Fatal(err)
	}
	records := studytest.Records(t, out, Name)
	if len(records) != 2 {
		t.Fatalf("%d records", len(records))
	}
	for _, r := range records {
		for _, views := range []string{OwnViews, CommonViews} {
			for _, form := range theory.Forms {
				at := func(name string) float64 {
					value, ok := r.Details[views+"."+form+"."+name]
					if !ok {
						t.Errorf("%s has no %s of %s, %s", r.Cell, name, views, form)
					}
					return value
				}
				// The chain that the repaired theorem promises, on trained encoders.
				if !(at("error") <= at("geometric")+1e-9 && at("geometric") <= at("moments")+1e-9 && at("moments") <= at("repaired")+1e-9) {
					t.Errorf("%s %s %s: error %g, geometric %g, moments %g, repaired %g", r.Cell, views, form,
						at("error"), at("geometric"), at("moments"), at("repaired"))
				}
			}
		}
	}
	before, err := os.ReadFile(filepath.Join(out, Name, "runs.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if err := Study.Run(context.Background(), b, options); err != nil { // All is recorded.
		t.Fatal(err)
	}
	if after, err := os.ReadFile(filepath.Join(out, Name, "runs.jsonl")); err != nil || string(after) != string(before) {
		t.Errorf("measured again, or %v", err)
	}

	results, err := Study.Load(study.Options{Out: out, Profile: study.Smoke})
	if err != nil {
		t.Fatal(err)
	}
	dataset := augmentation.Datasets(results)[0]
	if tables := tables(results); len(tables) != 1 || len(tables[0].Rows) != 2 || len(tables[0].Rows[0].Cells[0].Ours) != 1 {
		t.Errorf("%+v", tables)
	}
	tails, err := Tails(results, out, dataset, methods.SimCLR, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, figure := range []figures.Figure{tails, Ladder(results, dataset), Concentration(results, dataset, OwnViews), Concentration(results, dataset, CommonViews)} {
		if svg, png, err := figures.Render(figure); err != nil || len(svg) == 0 || len(png) == 0 {
			t.Error(err)
		}
	}
	if _, err := Tails(results, out, dataset, methods.SimCLR, 7); err == nil || !strings.Contains(err.Error(), "seed 7") {
		t.Error(err)
	}

	options.Set = []string{"views=0"}
	if err := Study.Run(context.Background(), b, options); !errors.As(err, new(study.BadOption)) || !strings.Contains(err.Error(), "views 0") {
		t.Error(err)
	}
}

// TestTheoryOfShares measures encoders whose seeds were trained on images of their own, on the same images.
func TestTheoryOfShares(t *testing.T) {
	b, dir := testbackend.Fastest(t), t.TempDir()
	random := rand.New(rand.NewPCG(1, 2))
	for _, split := range []string{"train", "test"} {
		for i := range 64 {
			picture := image.NewGray(image.Rect(0, 0, augmentation.ImageSize, augmentation.ImageSize))
			for p := range picture.Pix {
				picture.Pix[p] = uint8(random.IntN(256))
			}
			path := filepath.Join(dir, split, []string{"a", "b"}[i%2], fmt.Sprintf("%d.png", i))
			var content bytes.Buffer
			if err := errors.Join(png.Encode(&content, picture), os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content.Bytes(), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
	}
	options := study.Options{Profile: study.Smoke, Data: dir, Out: t.TempDir(), Parallel: 1, Seeds: 2}
	trained := options
	trained.Only = []string{"*/simclr/crop+*"}
	trained.Set = []string{"encoder=conv4-w2", "epochs=1", "batch=16", "shares=2"}
	if err := effectaug.Study.Run(context.Background(), b, trained); err != nil {
		t.Fatal(err)
	}
	options.Set = []string{"images=4"}
	if err := Study.Run(context.Background(), b, options); err != nil {
		t.Fatal(err)
	}
	records := studytest.Records(t, options.Out, Name)
	if len(records) != 2 || records[0].Data != records[1].Data || !strings.Contains(records[0].Data, "of each 2 shares, one for a seed") {
		t.Errorf("%d records: %v", len(records), records)
	}
	opened := [2]string{}
	for seed := range 2 {
		d, err := augmentation.Open(options, "images", 2, seed)
		if err != nil {
			t.Fatal(err)
		}
		opened[seed] = d.Train.Identity
	}
	if opened[0] == opened[1] {
		t.Errorf("both seeds have %s", opened[0])
	}
}
