package evaluation_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/evaluation"
)

func TestPatchSample(t *testing.T) {
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Finalize()
	v, store, err := evaluation.RandomViT("vit-8x1x2p8", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Finalize()
	frozen, err := evaluation.NewFeatureExtractor(b, v, store, "/", 4)
	if err != nil {
		t.Fatal(err)
	}
	defer frozen.Close()
	scenes := synthetic.Scenes(6, 32, 3).Segmentation()
	// The upper half of image 2 is not annotated.
	set := datasets.NewSegmentation("scenes", scenes.Classes, "", 6, func(i int) (*datasets.SegmentedImage, error) {
		a, err := scenes.Read(i)
		if i == 2 && err == nil {
			half := *a
			half.Mask = slices.Concat(slices.Repeat([]uint8{datasets.Ignore}, len(a.Mask)/2), a.Mask[len(a.Mask)/2:])
			a = &half
		}
		return a, err
	})
	ctx := context.Background()
	all, err := evaluation.PatchSample{Size: 32}.Draw(ctx, frozen, set, 0)
	if err != nil || len(all.Patches) != 5*16+8 || all.Grid != 4 || len(all.Features) != len(all.Patches)*v.Dim {
		t.Fatalf("%d patches, %d features, %v", len(all.Patches), len(all.Features), err)
	}
	encoded, err := evaluation.Encode(t.Context(), frozen, synthetic.Scenes(6, 32, 3).Images, 32, 6, true)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range all.Patches {
		a, _ := set.Read(p.Image)
		if want := a.Mask[(8*p.Row+4)*32+8*p.Column+4]; p.Class != want || p.Image == 2 && p.Row < 2 {
			t.Fatalf("%+v, want class %d", p, want)
		}
		at := (p.Image*16 + 4*p.Row + p.Column) * v.Dim
		if !slices.Equal(all.Feature(i), encoded.Patches[at:at+v.Dim]) {
			t.Fatalf("%+v has the feature of another patch", p)
		}
	}
	draw := func(seed uint64) evaluation.SampledPatches {
		some, err := evaluation.PatchSample{Images: 3, PerImage: 5, Size: 32}.Draw(ctx, frozen, set, seed)
		if err != nil || len(some.Patches) != 15 {
			t.Fatalf("%d patches, %v", len(some.Patches), err)
		}
		return some
	}
	one, again, other := draw(1), draw(1), draw(2)
	if !slices.Equal(one.Patches, again.Patches) || !slices.Equal(one.Features, again.Features) || slices.Equal(one.Patches, other.Patches) {
		t.Error("the seed does not decide which patches are drawn")
	}
	for i, p := range one.Patches {
		if p.Image%2 != 0 || i > 0 && p.Image == one.Patches[i-1].Image && 4*p.Row+p.Column <= 4*one.Patches[i-1].Row+one.Patches[i-1].Column {
			t.Errorf("patch %d is %+v", i, p)
		}
	}
	for want, bad := range map[string]evaluation.PatchSample{"size 4": {Size: 4}, "size 36 is not a multiple": {Size: 36}, "per_image -1": {Size: 32, PerImage: -1}} {
		if _, err := bad.Draw(ctx, frozen, set, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	empty := datasets.NewSegmentation("empty", scenes.Classes, "", 1, func(int) (*datasets.SegmentedImage, error) {
		a, err := scenes.Read(0)
		return &datasets.SegmentedImage{Height: 32, Width: 32, Pixels: a.Pixels, Mask: slices.Repeat([]uint8{datasets.Ignore}, 32*32)}, err
	})
	if _, err := (evaluation.PatchSample{Size: 32}).Draw(ctx, frozen, empty, 0); err == nil {
		t.Error("a set without annotation is no error")
	}
}
