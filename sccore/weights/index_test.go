package weights

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/sccore/safetensors"
)

const sharded = "testdata/families/dinov2-reg.transformers/model.safetensors.index.json"

func TestIndexNamesAllTensors(t *testing.T) {
	content, err := os.ReadFile(sharded)
	if err != nil {
		t.Fatal(err)
	}
	var index struct {
		FileOf map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(content, &index); err != nil {
		t.Fatal(err)
	}
	read, err := openSources(sharded)
	if err != nil {
		t.Fatal(err)
	}
	defer read.close()
	if got, want := slices.Sorted(maps.Keys(read.tensors)), slices.Sorted(maps.Keys(index.FileOf)); !slices.Equal(got, want) {
		t.Errorf("tensors %q, want %q", got, want)
	}
	for key, file := range index.FileOf {
		direct, _, err := safetensors.Read(filepath.Join(filepath.Dir(sharded), file))
		if err != nil {
			t.Fatal(err)
		}
		got, err := read.tensors[key].floats()
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, tensors.MustCopyFlatData[float32](direct[key])) {
			t.Errorf("%s has other values", key)
		}
	}
	files, err := Files(sharded)
	if err != nil || len(files) != 4 || files[0] != sharded || filepath.Base(files[3]) != "model-00003-of-00003.safetensors" {
		t.Errorf("files %q, %v", files, err)
	}
}

// TestHostileIndex changes one thing at a time in an index or in the files beside it.
func TestHostileIndex(t *testing.T) {
	index, err := os.ReadFile(sharded)
	if err != nil {
		t.Fatal(err)
	}
	replaced := func(old, with string) string { return strings.Replace(string(index), old, with, 1) }
	for name, test := range map[string]struct {
		index, without, want string
	}{
		"not JSON":         {index: "{", want: "unexpected end of JSON input"},
		"no map":           {index: `{"metadata": {}}`, want: "it has no weight_map"},
		"another type":     {index: `{"weight_map": 3}`, want: "cannot unmarshal number"},
		"too large":        {index: strings.Repeat(" ", maxIndex+1), want: "is larger than 4 MiB"},
		"outside":          {index: replaced("model-00001-of", "../model-00001-of"), want: `"../model-00001-of-00003.safetensors", which is no .safetensors file beside the index`},
		"absolute":         {index: replaced("model-00001-of-00003", "/etc/model"), want: `"/etc/model.safetensors", which is no`},
		"another format":   {index: replaced("model-00001-of-00003.safetensors", "model.bin"), want: `"model.bin", which is no`},
		"itself":           {index: replaced("model-00001-of-00003.safetensors", "model.safetensors.index.json"), want: "which is no .safetensors file beside the index"},
		"a file is gone":   {index: string(index), without: "model-00002-of-00003.safetensors", want: "model-00002-of-00003.safetensors: "},
		"a tensor is gone": {index: replaced(`"weight_map": {`, `"weight_map": {"more": "model-00001-of-00003.safetensors",`), want: `key "more" is in the index, but not in model-00001-of-00003.safetensors`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			shards, _ := filepath.Glob(filepath.Join(filepath.Dir(sharded), "*.safetensors"))
			for _, shard := range shards {
				content, err := os.ReadFile(shard)
				if err == nil && filepath.Base(shard) != test.without {
					err = os.WriteFile(filepath.Join(dir, filepath.Base(shard)), content, 0o644)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			path := filepath.Join(dir, "model.safetensors.index.json")
			if err := os.WriteFile(path, []byte(test.index), 0o644); err != nil {
				t.Fatal(err)
			}
			read, err := openSources(path)
			if err == nil {
				read.close()
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("said %v, want %s", err, test.want)
			}
		})
	}
}
