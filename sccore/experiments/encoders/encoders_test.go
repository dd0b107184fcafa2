package encoders

import (
	"errors"
	"maps"
	"path/filepath"
	"testing"

	"github.com/semcon/semcon/sccore/encoder"
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
		if err := weights.ExportViT(filepath.Join(dir, "dino"+seed+".safetensors"), store, "/", vit, nil, map[string]string{"seed": seed}); err != nil {
			t.Fatal(err)
		}
	}
	options := study.Options{Set: []string{"weights.dino-s16=" + dir + "/dino{seed}.safetensors", "k=1", "weights.ibot-s16=" + dir + "/dino0.safetensors"}}
	cells, rest, err := list(options, "video_seg", 3)
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

func TestLoadReadsWhatWasWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tiny.safetensors")
	tiny, random, err := Encoder{Architecture: "vit-tiny"}.Load(1)
	if err := errors.Join(err, weights.ExportViT(path, random, "/", tiny, nil, nil)); err != nil {
		t.Fatal(err)
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
