package mainresults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/encoders"
	"github.com/semcon/semcon/sccore/study/studytest"
)

func TestMainResultsRunOnEachBackendAndGoOn(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		out := t.TempDir()
		if first := studytest.Smoke(t, Study.Experiment(), b, study.Options{Out: out, Only: []string{"*/random/seed1"}}); len(first) != 1 {
			t.Fatalf("%d records", len(first))
		}
		all := studytest.Smoke(t, Study.Experiment(), b, study.Options{Out: out, Seeds: 2})
		whole := studytest.Smoke(t, Study.Experiment(), b, study.Options{Out: t.TempDir(), Seeds: 2})
		if len(all) != 2 || len(whole) != 2 {
			t.Fatalf("%d and %d records", len(all), len(whole))
		}
		if !maps.Equal(all[0].Details, whole[1].Details) {
			t.Errorf("%s: %v, and %v", all[0].Cell, all[0].Details, whole[1].Details)
		}
		for _, r := range all {
			if len(r.Details) != 6 || r.Value != r.Details["knn_Acc@1"] || r.Details["knn_Acc@5"] < r.Value || r.Details["linear_seg_Acc"] <= 0 {
				t.Errorf("%s: %v of %v", r.Cell, r.Value, r.Details)
			}
		}
	})
}

// TestMainResultsReadClassFolders runs on a few small pictures in ImageNet's layout, of colours that even random features tell apart.
func TestMainResultsReadClassFolders(t *testing.T) {
	dir, rng := t.TempDir(), rand.New(rand.NewPCG(1, 1))
	for _, split := range []string{"train", "val"} {
		for class := range 2 {
			folder := filepath.Join(dir, "imagenet", split, fmt.Sprintf("n%d", class))
			if err := os.MkdirAll(folder, 0o755); err != nil {
				t.Fatal(err)
			}
			for i := range 3 {
				picture := image.NewGray(image.Rect(0, 0, 40, 36))
				for p := range picture.Pix {
					picture.Pix[p] = uint8(200*class + rng.IntN(50))
				}
				file, err := os.Create(filepath.Join(folder, fmt.Sprintf("%d.png", i)))
				if err != nil {
					t.Fatal(err)
				}
				if err := png.Encode(file, picture); err != nil {
					t.Fatal(err)
				}
				file.Close()
			}
		}
	}
	var warned []string
	options := study.Options{
		Profile: study.Quick, Data: dir, Out: t.TempDir(), Seeds: 1, Set: []string{"size=32", "class.batch=4", "knn.k=3", "shares=1"},
		Warn: func(line string) { warned = append(warned, line) },
	}
	if err := Study.Run(context.Background(), testbackend.Fastest(t), options); err != nil {
		t.Fatal(err)
	}
	records, err := study.Records(study.Folder(options.Out, Study.Name))
	if err != nil || len(records) != 1 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	r := records[0]
	if len(warned) != 1 || !strings.HasPrefix(warned[0], "skipped the columns of linear segmentation: no COCOStuff-27") {
		t.Errorf("warned of %q", warned)
	}
	if _, has := r.Details["linear_seg_mIoU"]; has || r.Column != "ImageNet-1k" || r.Value != 100 || r.Details["linear_cls_Acc@5"] != 100 {
		t.Errorf("%s: %v", r.Column, r.Details)
	}
	tables, err := Study.Experiment().Tables(records, study.Quick)
	if err != nil || len(tables) != 2 || strings.Contains(tables[0].Markdown(), "100.0") || !strings.Contains(tables[1].Title, "another number than ImageNet-1k's") ||
		!strings.Contains(tables[1].Markdown(), "| random init | vit-tiny |") {
		t.Errorf("two classes beside the paper's 1,000: %+v, %v", tables, err)
	}
	if err := os.Rename(filepath.Join(dir, "imagenet", "val", "n0"), filepath.Join(dir, "imagenet", "val", "n2")); err != nil {
		t.Fatal(err)
	}
	err = Study.Run(context.Background(), testbackend.Fastest(t), options)
	if want := "imagenet: train and val have different classes"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("other classes: %v", err)
	}
	if err := os.Rename(filepath.Join(dir, "imagenet", "val", "n2"), filepath.Join(dir, "imagenet", "val", "n0")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "imagenet", "val", "n1", "1.png"), []byte("torn"), 0o644); err != nil {
		t.Fatal(err)
	}
	err = Study.Run(context.Background(), testbackend.Fastest(t), options)
	if err == nil || !strings.Contains(err.Error(), "1.png: is neither JPEG nor PNG") || strings.Contains(err.Error(), "\n") {
		t.Errorf("a broken picture: %v", err)
	}
}

// TestMainResultsSegmentReadImages runs on two small pictures in COCO's layout, the upper half of which is sky and the lower water, and on a folder
// imagenet without labels.
func TestMainResultsSegmentReadImages(t *testing.T) {
	dir := t.TempDir()
	write := func(file string, picture image.Image) {
		t.Helper()
		path := filepath.Join(dir, filepath.FromSlash(file))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var content bytes.Buffer
		encode := func() error { return png.Encode(&content, picture) }
		if strings.HasSuffix(file, ".jpg") {
			encode = func() error { return jpeg.Encode(&content, picture, nil) }
		}
		if err := errors.Join(encode(), os.WriteFile(path, content.Bytes(), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	picture, mask, ignored := image.NewGray(image.Rect(0, 0, 64, 64)), image.NewGray(image.Rect(0, 0, 64, 64)), image.NewGray(image.Rect(0, 0, 64, 64))
	for p := range picture.Pix {
		picture.Pix[p], mask.Pix[p], ignored.Pix[p] = 30, 157-1, 255 // Stuffthingmaps hold the category less 1.
		if p >= 64*32 {
			picture.Pix[p], mask.Pix[p] = 220, 155-1
		}
	}
	for _, part := range []string{"train2017", "val2017"} {
		for _, name := range []string{"1", "2"} {
			write("coco/"+part+"/"+name+".jpg", picture)
			write("coco/stuffthingmaps/"+part+"/"+name+".png", mask)
		}
	}
	write("imagenet/fish.png", picture)
	var warned []string
	options := study.Options{
		Profile: study.Quick, Data: dir, Out: t.TempDir(), Seeds: 1, Warn: func(line string) { warned = append(warned, line) },
		Set: []string{"segmentation.train=32", "segmentation.test=32", "segmentation.batch=2", "segmentation.epochs=60", "segmentation.rate=0.01", "shares=1"},
	}
	run := func() error { return Study.Run(context.Background(), testbackend.Fastest(t), options) }
	if err := run(); err != nil {
		t.Fatal(err)
	}
	if len(warned) != 1 || !strings.HasPrefix(warned[0], "skipped the columns of linear and k-NN classification: ") || !strings.HasSuffix(warned[0], "have no labels") {
		t.Errorf("warned of %q", warned)
	}
	records, err := study.Records(study.Folder(options.Out, Study.Name))
	if err != nil || len(records) != 1 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	r := records[0]
	if r.Cell != "coco/random/seed0" || r.Metric != "mIoU" || r.Value != r.Details["linear_seg_mIoU"] || len(r.Details) != 2 || strings.Contains(string(r.Config), "knn") {
		t.Errorf("%s, %s: %v of %s", r.Cell, r.Metric, r.Details, r.Config)
	}
	if r.Value < 90 { // Chance, all of one class, is 25.
		t.Errorf("mIoU %.1f of two halves", r.Value)
	}
	tables, err := Study.Experiment().Tables(records, study.Quick)
	if err != nil || len(tables) != 2 || !strings.Contains(tables[1].Markdown(), "| random init | vit-tiny |") {
		t.Errorf("%d tables, %v", len(tables), err)
	}

	options.Set = []string{"segmentation.train=33", "segmentation.test=32", "shares=1"}
	if err := run(); err == nil || !strings.Contains(err.Error(), "train 33 and test 32 are not both multiples of the patch size 8") {
		t.Errorf("half a patch: %v", err)
	}
	options.Set[0] = "segmentation.train=32"
	for _, name := range []string{"1", "2"} {
		write("coco/stuffthingmaps/val2017/"+name+".png", ignored)
	}
	if err := run(); err == nil || !strings.Contains(err.Error(), "no pixel of the images is annotated") {
		t.Errorf("nothing annotated: %v", err)
	}
	options.Data = t.TempDir()
	if err := run(); err == nil || !strings.Contains(err.Error(), "neither ImageNet with labels nor COCOStuff-27 is in "+options.Data) {
		t.Errorf("an empty folder: %v", err)
	}
}

func TestMainResultsOptions(t *testing.T) {
	for set, want := range map[string]string{
		"speed=1":             `"speed"`,
		"knn.k=0":             "k 0",
		"class.epochs=0":      "epochs 0",
		"patch.steps=0":       "steps 0",
		"images=0":            "images 0",
		"size=1":              "size 1",
		"segmentation.rate=1": `no key "segmentation"`,
		"shares=2":            "shares: synthetic",
		"encoder.row=first":   "weights.ROW=FILE",
		"weights.first=x":     `no row "first"`,
		"weights.dino-b8=no/": "no/",
	} {
		err := Study.Run(context.Background(), nil, study.Options{Profile: study.Smoke, Out: t.TempDir(), Set: []string{set}})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", set, err, want)
		}
	}
}

// TestMainResultsTables: made-up records of a row of the paper and one of ours.
func TestMainResultsTables(t *testing.T) {
	var records []study.Record
	for row, dataset := range map[string]string{"dino+ours-s16": "imagenet", encoders.Second: "synthetic"} {
		config := grid.Defaults(study.Quick, dataset, "").on(dataset)
		config.Encoder = encoders.Encoder{Row: row, Architecture: "vit-tiny"}
		records = append(records, study.Record{Profile: study.Quick, Cell: dataset + "/" + row + "/seed0", Row: row, Column: titles[dataset], Config: study.EncodeConfig(config), Data: dataset,
			Value: 77, Details: map[string]float64{"knn_Acc@1": 77, "knn_Acc@5": 89}})
	}
	tables, err := Study.Experiment().Tables(records, study.Quick)
	if err != nil || len(tables) != 2 {
		t.Fatalf("%d tables, %v", len(tables), err)
	}
	if len(tables[0].Rows) != 28 {
		t.Errorf("%d rows of the paper", len(tables[0].Rows))
	}
	for i, want := range []string{"| 78.0 / **77.0** (−1.0) | 89.6 / **89.0** (−0.6) |", "| full method | vit-tiny |"} {
		if text := tables[i].Markdown(); !strings.Contains(text, want) {
			t.Errorf("table %d has no %q:\n%s", i, want, text)
		}
	}
}

// TestSharesOfMainResults cuts labelled pictures in two: each picture with its label in one share alone, under one identity.
func TestSharesOfMainResults(t *testing.T) {
	dir := t.TempDir()
	for _, file := range []string{"train/a/1", "train/a/2", "train/b/3", "val/a/4", "val/b/5"} {
		path := filepath.Join(dir, "imagenet", filepath.FromSlash(file)+".png")
		var content bytes.Buffer
		if err := errors.Join(png.Encode(&content, image.NewGray(image.Rect(0, 0, 8, 8))), os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content.Bytes(), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	whole, err := encoders.MainTable.Open(dir, evaluation.ImageNet)
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	var identities [2]string
	for seed := range 2 {
		d := encoders.Share(study.Options{}, whole, seed, 2)
		identities[seed] = d.ID
		for i := range 2 {
			pictures := d.Objects[i].(evaluation.LabelledPictures)
			for j := range pictures.Len() {
				file := pictures.File(j)
				files = append(files, file)
				if want := int32(file[0] - 'a'); d.Labels[i][j] != want || d.Classes != 2 {
					t.Errorf("%s has label %d of %d, want %d of 2", file, d.Labels[i][j], d.Classes, want)
				}
			}
		}
	}
	if slices.Sort(files); !slices.Equal(files, []string{"a/1.png", "a/2.png", "a/4.png", "b/3.png", "b/5.png"}) || identities[0] != identities[1] || identities[0] == whole.ID {
		t.Errorf("shares %q of %q", files, identities)
	}
	var warned []string
	d := encoders.Share(study.Options{Warn: func(line string) { warned = append(warned, line) }}, whole, 2, 3)
	train, test := d.Objects[0].Len(), d.Objects[1].Len()
	if train != 1 || test != 2 || len(warned) != 1 || warned[0] != "imagenet/ (2 classes) is too small for 3 shares: every seed has all of its images" {
		t.Errorf("the last of three shares of 3 and 2 images has %d and %d, warnings %q", train, test, warned)
	}
	err = Study.Run(t.Context(), nil, study.Options{Profile: study.Quick, Data: dir, Out: t.TempDir(), Seeds: 3, Set: []string{"shares=2"}})
	if err == nil || !strings.Contains(err.Error(), "3 seeds and 2 shares") {
		t.Errorf("a third seed: %v", err)
	}
}

// TestBaselinesAreComparedByTheirProtocol: linear classification as the authors measure stands beside the printed numbers in a table of its own.
func TestBaselinesAreComparedByTheirProtocol(t *testing.T) {
	record := study.Record{
		Cell: "imagenet/dino-s16/seed0", Dataset: "imagenet", Row: "dino-s16", Column: "ImageNet-1k", Profile: study.Full, Value: 74, Config: study.EncodeConfig(Config{}),
		Details: map[string]float64{"linear_cls_Acc@1": 70, "linear_cls_Acc@5": 90, "knn_Acc@1": 74, "authors_linear_cls_Acc@1": 76.5, "authors_linear_cls_Acc@5": 92.5},
	}
	tables, err := Study.Experiment().Tables([]study.Record{record}, study.Full)
	if err != nil || len(tables) != 2 {
		t.Fatal(len(tables), err)
	}
	for i, want := range []string{"70.0", "76.5"} {
		text := tables[i].Markdown()
		if !strings.Contains(text, want) || !strings.Contains(text, "77.0") || !strings.Contains(text, "Rows of ResNet50 and STEGO") {
			t.Errorf("%s", text)
		}
	}
}
