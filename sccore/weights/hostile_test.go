package weights

import (
	"archive/zip"
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/sccore/encoder"
)

// archive is a PyTorch file of one pickle.
func archive(t testing.TB, pickle string, method uint16) []byte {
	var buffer bytes.Buffer
	w := zip.NewWriter(&buffer)
	entry, err := w.CreateHeader(&zip.FileHeader{Name: "archive/data.pkl", Method: method})
	if err == nil {
		_, err = entry.Write([]byte(pickle))
	}
	if err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

func TestHostileWeightsAreOneLine(t *testing.T) {
	good, err := os.ReadFile("testdata/tiny-dino.pth")
	if err != nil {
		t.Fatal(err)
	}
	legacy, err := os.ReadFile("testdata/tiny-legacy.pth")
	if err != nil {
		t.Fatal(err)
	}
	convolution, err := os.ReadFile("testdata/convolution.pth")
	if err != nil {
		t.Fatal(err)
	}
	_, store := readTiny(t, "testdata/tiny.safetensors", "")
	nan := filepath.Join(t.TempDir(), "nan.safetensors")
	store.GetVariable("/norm/bias").MustSetValue(tensors.FromFlatDataAndDimensions([]float32{15: float32(math.NaN())}, 16))
	if err := ExportViT(nan, store, "/", tiny, nil, nil); err != nil {
		t.Fatal(err)
	}
	withNaN, err := os.ReadFile(nan)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		file    string
		content []byte
		part    string
	}{
		"runs a command":     {"a.pth", archive(t, "\x80\x02cos\nsystem\nX\x02\x00\x00\x00ls\x85R.", zip.Store), `"os.system"`},
		"evaluates":          {"a.pth", archive(t, "\x80\x04\x8c\x08builtins\x8c\x04eval\x93.", zip.Store), `"builtins.eval"`},
		"instance opcode":    {"a.pth", archive(t, "(S'ls'\nios\nsystem\n.", zip.Store), "opcode"},
		"zip bomb":           {"a.pth", archive(t, strings.Repeat("N", 1<<24), zip.Deflate), "compressed"},
		"dictionaries":       {"a.pth", archive(t, "}q\x00X\x01\x00\x00\x00ah\x00s.", zip.Store), "too deep"},
		"no stack":           {"a.pth", archive(t, "R.", zip.Store), "damaged"},
		"long text":          {"a.pth", archive(t, "X\xff\xff\xff\x7f.", zip.Store), "32 MiB"},
		"other architecture": {"a.pth", convolution, "no vision transformer"},
		"zip cut off":        {"a.pth", good[:len(good)/2], "cut off"},
		"legacy cut off":     {"a.pth", legacy[:len(legacy)-100], "cut off"},
		"empty":              {"a.pth", nil, "too short"},
		"text":               {"a.pth", []byte("<html>not found</html>"), "neither a PyTorch"},
		"not a number":       {"a.safetensors", withNaN, "norm.bias: entry 15 is NaN"},
		"huge header":        {"a.safetensors", append([]byte{255, 255, 255, 255, 255, 255, 0, 0}, "{}"...), "header"},
		"negative shape":     {"a.safetensors", file(`{"cls_token":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}`, 4), "shape [-1]"},
	} {
		path := filepath.Join(t.TempDir(), c.file)
		if err := os.WriteFile(path, c.content, 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := ReadViT(path, tiny, "")
		if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), c.part) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want one line with %q", name, err, c.part)
		}
	}
	for name, change := range map[string]func(v *encoder.ViT){
		"width":  func(v *encoder.ViT) { v.Dim = 32 },
		"blocks": func(v *encoder.ViT) { v.Depth = 3 },
		"patch":  func(v *encoder.ViT) { v.Patch = 8 },
	} {
		v := tiny
		change(&v)
		if _, err := ReadViT("testdata/tiny-dino.pth", v, ""); err == nil {
			t.Errorf("another %s was accepted", name)
		}
	}
	if _, err := ReadViT("testdata/tiny-dino.pth", encoder.ViT{Positions: encoder.DINOPositions}, ""); err == nil || !strings.Contains(err.Error(), "width 16") {
		t.Errorf("a transformer of no name: %v", err)
	}
}
