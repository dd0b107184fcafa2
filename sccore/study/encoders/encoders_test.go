package encoders

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/safetensors"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/weights"
)

func TestARowTakesAFileForEachSeed(t *testing.T) {
	dir := t.TempDir()
	vit, store, err := Encoder{Architecture: "vit-s16"}.Load(1)
	if err != nil {
		t.Fatal(err)
	}
	for _, seed := range []string{"0", "1", "2"} {
		if err := weights.Export(filepath.Join(dir, "dino"+seed+".safetensors"), weights.Timm, store, "/", vit, nil, map[string]string{"seed": seed}); err != nil {
			t.Fatal(err)
		}
	}
	options := study.Options{Set: []string{"weights.dino-s16=" + dir + "/dino{seed}.safetensors", "k=1", "weights.ibot-s16=" + dir + "/dino0.safetensors"}}
	cells, rest, err := list(options, "video_seg", 3, true)
	if err != nil || len(rest) != 1 || rest[0] != "k=1" {
		t.Fatalf("%v, %v", rest, err)
	}
	counts, digests := map[string]int{}, map[string]bool{}
	for _, c := range cells {
		counts[c.Row]++
		digests[c.Digest] = true
	}
	if want := map[string]int{"random": 3, "dino-s16": 3, "ibot-s16": 3}; !maps.Equal(counts, want) || len(digests) != 4 {
		t.Errorf("cells %v, %d digests", counts, len(digests))
	}
}

func TestLoadReadsWhatWasWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tiny.safetensors")
	tiny, random, err := Encoder{Architecture: "vit-tiny"}.Load(1)
	if err := errors.Join(err, weights.Export(path, weights.Timm, random, "/", tiny, nil, nil)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := (Encoder{Row: Second, Weights: path, Digest: "0123456789abcdef"}).Load(0); err == nil || !strings.Contains(err.Error(), path+": has changed since") {
		t.Errorf("a file that is replaced during a run: %v", err)
	}
	vit, store, err := Encoder{Row: Second, Weights: path}.Load(0)
	if err != nil || vit.Name != "vit-tiny" {
		t.Fatalf("%+v, %v", vit, err)
	}
	for _, w := range (encoder.ViT{Dim: vit.Dim, Depth: vit.Depth, PatchSize: vit.PatchSize, GridSize: vit.GridSize}).Weights() {
		a, b := store.GetVariable("/"+w.Path), random.GetVariable("/"+w.Path)
		if a == nil || b == nil || !a.MustValue().Equal(b.MustValue()) {
			t.Errorf("%s is not what was written", w.Path)
		}
	}
}

// TestKeysAreIgnoredByRow adds a key that nobody knows to DINOv2's weights of timm, which are the row's.
func TestKeysAreIgnoredByRow(t *testing.T) {
	v, err := encoder.ViTByName("vit-s16-grid2-ls")
	if err != nil {
		t.Fatal(err)
	}
	store, path := model.NewStore(), filepath.Join(t.TempDir(), "v2.safetensors")
	for _, w := range v.Weights() {
		if _, err := store.CreateVariable("/"+w.Path, tensors.FromShape(shapes.Make(dtypes.Float32, w.Shape...))); err != nil {
			t.Fatal(err)
		}
	}
	if err := weights.Export(path, weights.Timm, store, "/", v, nil, nil); err != nil {
		t.Fatal(err)
	}
	named, metadata, err := safetensors.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	named["extra"] = tensors.FromValue([]float32{1})
	if err := safetensors.Write(path, named, metadata); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		set  []string
		part string
	}{
		{[]string{"weights.dino-s16=" + path}, "key extra is not understood"},
		{[]string{"weights.dino-s16=" + path, "ignore.ibot-s16=extra"}, "key extra is not understood"},
		{[]string{"ignore.dino-s16=extra"}, "there is no --set weights.dino-s16=FILE"},
		{[]string{"ignore.dino-s16=extra", "weights.dino-s16=" + path}, ""},
	} {
		cells, _, err := list(study.Options{Set: c.set}, "video_seg", 1, true)
		if c.part != "" {
			if err == nil || !strings.Contains(err.Error(), c.part) {
				t.Errorf("%q: %v", c.set, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		last := cells[len(cells)-1].Encoder
		if read, err := last.read(); last.Ignore != "extra" || err != nil || read.ViT.Name != v.Name {
			t.Errorf("%+v: %v", last, err)
		}
	}
}

// TestEncodersAreOfTheKindOfTheImages: made-up runs of pretrain on both kinds of images. Each kind takes its own, and the other where there is none.
func TestEncodersAreOfTheKindOfTheImages(t *testing.T) {
	out := t.TempDir()
	add := func(kind string) {
		t.Helper()
		r := study.Record{
			Experiment: recipe.Pretraining, Cell: kind + "/seed0", Row: recipe.RowMethod, Column: recipe.ColumnRank, Profile: study.Quick, Data: kind,
			Curve: "cells/" + kind + "/second/curve.jsonl", Config: study.EncodeConfig(recipe.ProfileConfig(study.Quick, kind == "images")),
		}
		file := recipe.EncoderFile(out, r, Second)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(kind), 0o644), r.Append(study.Folder(out, recipe.Pretraining))); err != nil {
			t.Fatal(err)
		}
	}
	takes := func(read bool, want string) {
		t.Helper()
		all, err := pretrained(out, study.Quick, 2, read)
		if err != nil || len(all) != 1 || !strings.Contains(all[0].Weights, "/"+want+"/") {
			t.Errorf("real images %t: %+v, %v, want the encoder of %s", read, all, err, want)
		}
	}
	add("images")
	takes(false, "images")
	add("synthetic")
	takes(true, "images")
	takes(false, "synthetic")
}

// TestEncodersAreOfOneRun: two seeds of the profile's own settings, and later one of others, which does not take a seed's place; without them it is measured.
func TestEncodersAreOfOneRun(t *testing.T) {
	for _, first := range []int{0, 2} { // Seeds of the profile's own settings, from the last one: none, or two.
		out := t.TempDir()
		add := func(seed int, name string, change func(c *recipe.Config)) {
			config := recipe.ProfileConfig(study.Quick, false)
			change(&config)
			r := study.Record{
				Experiment: recipe.Pretraining, Cell: fmt.Sprintf("synthetic/seed%d", seed), Seed: seed, Row: recipe.RowMethod, Column: recipe.ColumnRank, Profile: study.Quick, Data: "scenes",
				Curve: "cells/" + name + "/second/curve.jsonl", Config: study.EncodeConfig(config), ConfigHash: name,
			}
			file := recipe.EncoderFile(out, r, Second)
			if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(name), 0o644), r.Append(study.Folder(out, recipe.Pretraining))); err != nil {
				t.Fatal(err)
			}
		}
		for seed := range first {
			add(seed, fmt.Sprintf("own%d", seed), func(*recipe.Config) {})
		}
		add(0, "changed", func(c *recipe.Config) { c.Second.Steps = 7 })
		add(1, "measured", func(c *recipe.Config) { c.Second.Steps, c.Recall.Size = 7, 224 })
		all, err := pretrained(out, study.Quick, 2, false)
		names := lo.Map(all, func(s seeded, _ int) string { return filepath.Base(filepath.Dir(filepath.Dir(s.Weights))) })
		want, changed := []string{"own0", "own1"}, ""
		if first == 0 {
			want, changed = []string{"changed", "measured"}, "second.steps=7" // Recall does not change what is trained.
		}
		if err != nil || !slices.Equal(names, want) || all[0].Changed != changed || all[0].Run != all[1].Run {
			t.Errorf("%d seeds of the profile's own: %v, %+v, %v; want %v", first, names, all, err, want)
		}
	}
}

// TestTheStartIsARow: a made-up run of pretrain from a file, of another architecture than the profile's. The file's encoder has a row of its own, and random weights
// have its architecture. A run of an earlier version has not left that encoder.
func TestTheStartIsARow(t *testing.T) {
	out := t.TempDir()
	config := recipe.ProfileConfig(study.Quick, true)
	config.Init, config.Second.Encoder = "start.safetensors", "vit-96x4x4p8-grid8"
	var files []string
	for _, stage := range []string{Init, Second} {
		r := study.Record{
			Experiment: recipe.Pretraining, Cell: "images/seed0", Row: titles[stage], Column: recipe.ColumnRank, Profile: study.Quick, Data: "photographs",
			Config: study.EncodeConfig(config),
		}
		if stage == Second {
			r.Curve = "cells/images/seed0/second/curve.jsonl"
		}
		file := recipe.EncoderFile(out, study.Record{Curve: "cells/images/seed0/second/curve.jsonl"}, stage)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(stage), 0o644), r.Append(study.Folder(out, recipe.Pretraining))); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	rows := func() (rows []string) {
		t.Helper()
		all, _, err := list(study.Options{Out: out, Profile: study.Quick}, "video_seg", 1, true)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range all {
			rows = append(rows, e.Row+" "+e.Weights)
			if e.Architecture != config.Second.Encoder {
				t.Errorf("%s is of architecture %s", e.Row, e.Architecture)
			}
		}
		return rows
	}
	if got := rows(); !slices.Equal(got, []string{Random + " ", Init + " " + files[0], Second + " " + files[1]}) {
		t.Errorf("rows %q", got)
	}
	if err := os.Remove(files[0]); err != nil {
		t.Fatal(err)
	}
	if got := rows(); !slices.Equal(got, []string{Random + " ", Second + " " + files[1]}) {
		t.Errorf("rows %q without the encoder of the file", got)
	}
}
