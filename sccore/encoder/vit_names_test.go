package encoder_test

import (
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/encoder"
)

func TestNamesSayWhatTransformersAre(t *testing.T) {
	for name, want := range map[string]encoder.ViT{
		"vit-s16":  {PatchSize: 16, Dim: 384, Depth: 12, NumHeads: 6, GridSize: 14},
		"vit-b8":   {PatchSize: 8, Dim: 768, Depth: 12, NumHeads: 12, GridSize: 28},
		"vit-tiny": {PatchSize: 8, Dim: 64, Depth: 3, NumHeads: 4, GridSize: 6, InitStd: 0.1},
		"vit-l14":  {PatchSize: 14, Dim: 1024, Depth: 24, NumHeads: 16, GridSize: 16},
		"vit-s14-grid37-reg4-ls": {
			PatchSize: 14, Dim: 384, Depth: 12, NumHeads: 6, GridSize: 37, Registers: 4, LayerScale: true,
		},
		"vit-g14-grid37-ls-swiglu4096": {
			PatchSize: 14, Dim: 1536, Depth: 40, NumHeads: 24, GridSize: 37, LayerScale: true, MLPWidth: 4096, SwiGLU: true,
		},
		"vit-s16-reg4-ls-qv-rope100bf16-eps0.00001": {
			PatchSize: 16, Dim: 384, Depth: 12, NumHeads: 6, Registers: 4, LayerScale: true,
			Bias: encoder.QVBias, RoPE: encoder.RoPE{Base: 100, BF16: true}, Epsilon: 1e-5,
		},
		"vit-48x2x3p14-grid5-mlp100-qknorm-none-rope10.5": {
			PatchSize: 14, Dim: 48, Depth: 2, NumHeads: 3, GridSize: 5, MLPWidth: 100, QKNorm: true, Bias: encoder.NoBias,
			RoPE: encoder.RoPE{Base: 10.5},
		},
	} {
		want.Name, want.Positions = name, encoder.DINOPositions
		got, err := encoder.ViTByName(name)
		if err != nil || got != want {
			t.Errorf("%s is %+v (%v), want %+v", name, got, err, want)
		}
		if again := got.Named(); again != want {
			t.Errorf("%s is called %s", name, again.Name)
		}
	}
	for _, name := range []string{
		"", "vit", "vit-", "vit-x16", "vit-s0", "vit-s16-", "vit-s16-ls-ls", "vit-s16-reg", "vit-s16-reg0", "vit-s16-grid14", "vit-s16-wide", "vit-384x12x6p16",
		"vit-s16-ls-reg4", "vit-s16-grid99999999", "vit-s16-eps-1", "vit-50x2x3p14", "vit-s999", "vit-s16-ropeNaN", "vit-s16-rope",
	} {
		if v, err := encoder.ViTByName(name); err == nil {
			t.Errorf("%q is %+v", name, v)
		}
	}
}

// TestLaterPartsAreListed compares the weights that the graph makes with those that are listed.
func TestLaterPartsAreListed(t *testing.T) {
	engine, err := backend.OpenConfig(backend.Go)
	if err != nil {
		t.Fatal(err)
	}
	positioned := later
	positioned.GridSize, positioned.Registers, positioned.SwiGLU, positioned.Bias = 3, 0, false, encoder.NoBias
	for _, v := range []encoder.ViT{later, positioned} {
		store := seeded(t, 1)
		exec := model.MustNewExec(engine, store, func(scope *model.Scope, images *Node) []*Node {
			tokens := v.Tokens(scope, images)
			tokens.Blocks[0].AssertDims(2, 1+v.Registers+6, 8)
			tokens.Patches.AssertDims(2, 3, 2, 8)
			tokens.FilterAttention.AssertDims(2, 2, 3, 2, 3)
			return []*Node{tokens.Class}
		})
		exec.MustCall(waves(1000, dtypes.Float32, 1, 0, 2, 6, 4, 3))
		built := 0
		for variable := range store.IterVariables() {
			if variable.Trainable {
				built++
			}
		}
		for _, w := range v.Weights() {
			if variable := store.GetVariable("/" + w.Path); variable == nil || variable.Shape().CheckDims(w.Shape...) != nil {
				t.Errorf("%s is listed with shape %v and is not built so", w.Path, w.Shape)
			}
		}
		if built != len(v.Weights()) {
			t.Errorf("%d weights listed, %d built", len(v.Weights()), built)
		}
	}
}
