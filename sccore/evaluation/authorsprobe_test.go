package evaluation

import (
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/settings"
)

// TestAuthorsProbe: it learns drawn objects from random features, better than chance, and says the same twice.
func TestAuthorsProbe(t *testing.T) {
	v, store, err := RandomViT("vit-tiny", 1)
	if err != nil {
		t.Fatal(err)
	}
	e, err := NewEncoder(testbackend.Fastest(t), v, store, 8, 3)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	m := MainTable{Size: 32, Authors: AuthorsProbe{Epochs: 6, Batch: 16, LearningRate: 1}}
	d, err := m.Open(Source{Dataset: Synthetic, Images: 40, Size: 32})
	if err != nil {
		t.Fatal(err)
	}
	var before [][]int32
	for range 2 {
		ranked, err := m.Authors.Rank(t.Context(), e, d, m.Size, 5)
		if err != nil || len(ranked) != 40 || len(ranked[0]) != 5 {
			t.Fatal(len(ranked), err)
		}
		right := 0
		for i, top := range ranked {
			if top[0] == d.Labels[1][i] {
				right++
			}
			if before != nil && top[0] != before[i][0] {
				t.Errorf("image %d is of class %d, and then of %d", i, before[i][0], top[0])
			}
		}
		if right < 10 { // Chance is 6 or 7 of 40.
			t.Errorf("%d of 40 are right", right)
		}
		before = ranked
	}
	m.KNN.K = 5
	if text := m.Protocol(); !strings.Contains(text, "as DINO measures") || settings.Check(AuthorsProbe{Epochs: 100, Batch: 1024, LearningRate: 1e-3}) != nil {
		t.Error(text)
	}
	if o := m.Authors.outputs(encoder.ViT{Depth: 12, Dim: 384}); len(o.Blocks) != 4 || o.Blocks[0] != 9 || o.Patches {
		t.Errorf("ViT-S: %+v", o)
	}
	if o := m.Authors.outputs(encoder.ViT{Depth: 12, Dim: 768}); len(o.Blocks) != 0 || !o.Patches {
		t.Errorf("ViT-B: %+v", o)
	}
}

// TestJoinedFeatures: [CLS] tokens in a row, each followed by the mean of its patch tokens if there are any.
func TestJoinedFeatures(t *testing.T) {
	wide := Features{Class: []float32{1, 2}, Rows: 1, Columns: 2, Patches: []float32{3, 5, 7, 8}}
	if got := joined([]Features{wide}); !slices.Equal(got, []float32{1, 2, 5, 6.5}) {
		t.Errorf("[CLS] and two patches: %v", got)
	}
	if got := joined([]Features{{Class: []float32{1, 2}, Rows: 1, Columns: 2}, {Class: []float32{3, 4}, Rows: 1, Columns: 2}}); !slices.Equal(got, []float32{1, 2, 3, 4}) {
		t.Errorf("[CLS] of two blocks: %v", got)
	}
}

// TestAuthorsProbeTellsColours: images are reddish or bluish. [CLS] of a narrow transformer tells which, and the mean patch token alone of a wide one.
func TestAuthorsProbeTellsColours(t *testing.T) {
	d, rng := Data{Classes: 2}, randomOf(1)
	for i, count := range []int{24, 40} {
		set := &datasets.Images{Height: 16, Width: 16, Classes: []string{"reddish", "bluish"}}
		for range count {
			colour, label := []uint8{uint8(140 + rng.IntN(100)), uint8(rng.IntN(256)), uint8(rng.IntN(100))}, int32(rng.IntN(2))
			if label == 1 {
				slices.Reverse(colour)
			}
			set.Pixels, set.Labels = append(set.Pixels, slices.Repeat(colour, 16*16)...), append(set.Labels, label)
		}
		d.Objects[i], d.Labels[i] = set, set.Labels
	}
	for _, name := range []string{"vit-6x1x2p8", "vit-386x1x2p8-mlp1"} {
		e, err := colourEncoder(testbackend.Go(t), name)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		if dim := e.ViT.Dim; dim > 384 {
			if err := e.store.GetVariable("/blocks/0/attn/proj/weight").SetValue(tensors.FromFlatDataAndDimensions(make([]float32, dim*dim), dim, dim)); err != nil {
				t.Fatal(err) // [CLS] is 0.
			}
		}
		ranked, err := AuthorsProbe{Epochs: 2, Batch: 8, LearningRate: 5}.Rank(t.Context(), e, d, 16, 2)
		if err != nil {
			t.Fatal(err)
		}
		if right := metrics.TopKAccuracy(ranked, d.Labels[1], 1); right < 95 { // Chance is 50 ± 8.
			t.Errorf("%s: %g %% are right", name, right)
		}
	}
}
