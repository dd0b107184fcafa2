package evaluation

import (
	"strings"
	"testing"

	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/encoder"
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
