package weights

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/settings"
)

// These targets run with -fuzzminimizetime 1x. By default the fuzzing engine minimizes each input that reaches new code for up to a minute, in which FuzzTorch
// runs 28 inputs:
//
//	go test ./sccore/weights -run '^$' -fuzz FuzzTorch -fuzztime 2m -fuzzminimizetime 1x

// allocated returns the number of bytes that read allocates, including those that it frees.
func allocated(read func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	read()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// modest returns the bytes that reading a file of the given size may allocate: 16 MiB for the tiny transformer and for the names of tensors in
// shared dictionaries, and a few objects of 100 bytes for each byte, which may be an opcode.
func modest(size int) uint64 { return 16<<20 + 600*uint64(size) }

// readModestly reads an arbitrary file within the memory bound.
func readModestly(t *testing.T, content []byte, open func(s *sources, r io.ReaderAt, size int64) error) {
	taken := allocated(func() {
		var err error
		for _, want := range []encoder.ViT{tiny, {NumHeads: 2}} {
			all := &sources{tensors: map[string]source{}}
			if err = open(all, bytes.NewReader(content), int64(len(content))); err == nil {
				_, err = importViT(all, modelFacts{}, want, "", nil)
			}
		}
		if err != nil && (strings.Contains(err.Error(), "\n") || len(err.Error()) > 2000 || err.Error() == "") {
			t.Errorf("%.200q… is not one line", err)
		}
	})
	if taken > modest(len(content)) {
		t.Errorf("%d bytes took %d of memory", len(content), taken)
	}
}

func anyContent(s *sources, r io.ReaderAt, size int64) error { return s.addContent(r, size, false) }

func addSeeds(f *testing.F, names ...string) {
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content)
	}
}

func FuzzTorch(f *testing.F) {
	addSeeds(f, "convolution.pth", "tiny-half.pth", "families/dinov3-nan.pth")
	f.Add(archive(f, "}q\x00X\x01\x00\x00\x00ah\x00s.", zip.Store))
	f.Fuzz(func(t *testing.T, content []byte) { readModestly(t, content, anyContent) })
}

// FuzzLegacyTorch changes the content after the magic number of the older format.
func FuzzLegacyTorch(f *testing.F) {
	content, err := os.ReadFile("testdata/tiny-legacy.pth")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(content[len(legacyStart):])
	f.Add(legacy("]"+text("0")+"a.", string(append([]byte{4, 0, 0, 0, 0, 0, 0, 0}, make([]byte, 16)...)))[len(legacyStart):])
	f.Fuzz(func(t *testing.T, content []byte) {
		readModestly(t, append([]byte(legacyStart), content...), anyContent)
	})
}

// FuzzUnpickle changes the pickle in an archive of one array and keeps the archive's checksums correct.
func FuzzUnpickle(f *testing.F) {
	f.Add([]byte("\x80\x02}q\x00(X\x01\x00\x00\x00aK\x01X\x01\x00\x00\x00b]q\x01(K\x02K\x03eu."))
	f.Add([]byte(tensor(16, 0, tuple(1, 1, 16), tuple(16, 16, 1))))
	for _, name := range []string{"dino-backbone.pth", "leopart.ckpt"} {
		official, err := zip.OpenReader(filepath.Join("testdata", "layouts", name))
		if err != nil {
			f.Fatal(err)
		}
		defer official.Close()
		pickle, err := content(official.File[0])
		if err != nil || filepath.Base(official.File[0].Name) != "data.pkl" {
			f.Fatal(official.File[0].Name, err)
		}
		f.Add(pickle)
	}
	f.Fuzz(func(t *testing.T, pickle []byte) {
		readModestly(t, zipped(t, zip.Store, "archive/data.pkl", string(pickle), "archive/data/0", string(make([]byte, 64))), anyContent)
	})
}

func FuzzSafetensors(f *testing.F) {
	addSeeds(f, "tiny.safetensors", "families/dinov3-plus.timm/model.safetensors", "families/dinov2-giant.transformers/model.safetensors")
	f.Add(file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"__metadata__":{"k":"v"}}`, 4))
	f.Add(file(`{}`, 0))
	f.Fuzz(func(t *testing.T, content []byte) { readModestly(t, content, (*sources).addSafetensors) })
}

// FuzzIndex changes an index of several files.
func FuzzIndex(f *testing.F) {
	addSeeds(f, "families/dinov2-reg.transformers/model.safetensors.index.json")
	f.Add([]byte(`{"weight_map":{"a":"../b.safetensors"}}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		var fileOf map[string]string
		var err error
		if taken := allocated(func() { fileOf, err = parseIndex(content) }); taken > modest(len(content)) {
			t.Errorf("%d bytes took %d of memory", len(content), taken)
		}
		for key, name := range fileOf {
			if err != nil || name != filepath.Base(name) || strings.ContainsAny(name, `/\`) || filepath.Ext(name) != ".safetensors" {
				t.Errorf("%q in %q (%v)", key, name, err)
			}
		}
	})
}

// FuzzFacts changes what is beside weights: config.json, and preprocessor_config.json.
func FuzzFacts(f *testing.F) {
	addSeeds(f, "families/dinov3.transformers/config.json", "families/dinov3.timm/config.json", "families/dino.transformers/config.json")
	f.Add([]byte(`{"size":{"shortest_edge":256},"crop_size":224,"do_center_crop":true,"image_mean":[0.5,0.5,0.5]}`))
	f.Add([]byte(`{"architecture":"vit_small_patch16_224","mean":[2,2,2]}`)) // Out of range.
	f.Add([]byte(`{"image_processor_type":"ViTImageProcessor","size":10000}`))
	// The content is timm's config.json, and transformers' preprocessor_config.json without a config.json and beside one.
	folders := []string{f.TempDir(), f.TempDir(), f.TempDir()}
	if err := os.WriteFile(filepath.Join(folders[2], "config.json"), []byte(`{"model_type":"vit"}`), 0o600); err != nil {
		f.Fatal(err)
	}
	path := filepath.Join("testdata", "families", "dinov3.timm", "model.safetensors")
	file, err := openSources(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(file.close)
	f.Fuzz(func(t *testing.T, content []byte) {
		taken := allocated(func() {
			facts, err := parseFacts(content)
			if err == nil {
				var found evidence
				if found, err = examine(file, facts, "", nil); err == nil {
					v, wrong := found.identify(encoder.ViT{})
					if wrong == nil && settings.Check(v) != nil {
						t.Errorf("%+v: %v", v, settings.Check(v))
					}
					err = wrong
				}
			}
			if err != nil && (strings.Contains(err.Error(), "\n") || len(err.Error()) > 2000) {
				t.Errorf("%.200q… is not one line", err)
			}
			for i, folder := range folders {
				name := []string{"config.json", "preprocessor_config.json"}[min(i, 1)]
				if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
					t.Fatal(err)
				}
				p, size, source, err := ReadPreprocessing(filepath.Join(folder, ModelFile))
				if wrong := settings.Check(p); err == nil && (wrong != nil || size < 1 || size > 1<<13 || source != "" && source != filepath.Join(folder, name)) {
					t.Errorf("%+v for %d pixels from %q: %v", p, size, source, wrong)
				}
				if err != nil && (strings.Contains(err.Error(), "\n") || len(err.Error()) > 2000 || !strings.Contains(err.Error(), filepath.Join(folder, name))) {
					t.Errorf("%.200q… is not one line that names %s", err, name)
				}
			}
		})
		if taken > modest(len(content)) {
			t.Errorf("%d bytes took %d of memory", len(content), taken)
		}
	})
}

// file builds a safetensors file from the text of its header and its data.
func file(header string, data int) []byte {
	content := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(content, header...), make([]byte, data)...)
}
