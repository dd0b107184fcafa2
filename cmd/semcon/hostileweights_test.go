package main

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/sccore/safetensors"
)

// TestHostileWeightsAreOneLineOfEveryVerb passes one file of each kind that sccore/weights refuses to the verbs that read weights.
func TestHostileWeightsAreOneLineOfEveryVerb(t *testing.T) {
	official := func(name string) []byte {
		content, err := os.ReadFile(filepath.Join("..", "..", "sccore", "weights", "testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	convolution, small, dino := official("convolution.pth"), official(filepath.Join("layouts", "dino.pth")), official("tiny-dino.pth")
	m := newMachine(t)
	good := filepath.Join(m.Checkout, "good.safetensors")
	tinyWeights(t, good)
	whole, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	changed := func(value float32, tensor string) []byte {
		named, _, err := safetensors.Read(good)
		if err != nil {
			t.Fatal(err)
		}
		if value == 0 {
			delete(named, tensor)
		} else {
			named[tensor] = tensors.FromFlatDataAndDimensions(append([]float32{value}, make([]float32, 63)...), 64)
		}
		path := filepath.Join(t.TempDir(), "changed.safetensors")
		if err := safetensors.Write(path, named, nil); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	torch := func(pickle string, method uint16) []byte {
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
	safetensors := func(header string, data int) []byte {
		return append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...), make([]byte, data)...)
	}
	entry := `"cls_token":{"dtype":"%s","shape":%s,"data_offsets":[0,256]}`
	for _, c := range []struct {
		name, file string
		content    []byte
		part       string
	}{
		{"convolution", "a.pth", convolution, "contains no vision transformer"},
		{"another width", "a.pth", small, "width 8|cls_token: has shape [1 1 8]"},
		{"a missing key", "a.safetensors", changed(0, "blocks.1.norm2.bias"), "missing key blocks.1.norm2.bias, which the transformer needs"},
		{"not a number", "a.safetensors", changed(float32(math.NaN()), "norm.bias"), "key norm.bias: entry 0 is NaN"},
		{"infinite", "a.safetensors", changed(float32(math.Inf(-1)), "blocks.0.norm1.weight"), "key blocks.0.norm1.weight: entry 0 is -Inf"},
		{"cut early", "a.safetensors", whole[:len(whole)/16], "a.safetensors: "},
		{"cut late", "a.safetensors", whole[:len(whole)*15/16], "bytes"},
		{"cut archive", "a.pth", dino[:len(dino)*15/16], "truncated"},
		{"zip bomb", "a.pth", torch(strings.Repeat("N", 1<<24), zip.Deflate), "compressed"},
		{"code", "a.pth", torch("\x80\x02cos\nsystem\nX\x09\x00\x00\x00touch ran\x85R.", zip.Store), `"os.system"`},
		{"code by an instance", "a.pth", torch("(X\x09\x00\x00\x00touch ranios\nsystem\n.", zip.Store), "opcode 0x69"},
		{"long header", "a.safetensors", append([]byte{0, 0, 0, 1, 0, 0, 0, 0}, "{}"...), "ends too early: it has 10 bytes, and its header alone 16777216"},
		{"doubled key", "a.safetensors", safetensors(fmt.Sprintf("{"+entry+","+entry+"}", "F32", "[1,1,64]", "F32", "[1,1,64]"), 256), "duplicate object member name"},
		{"impossible shape", "a.safetensors", safetensors(fmt.Sprintf("{"+entry+"}", "F32", "[1,-1,64]"), 256), "[1 -1 64]|no vision transformer"},
		{"unknown type", "a.safetensors", safetensors(fmt.Sprintf("{"+entry+"}", "F4", "[1,1,64]"), 256), `unknown type "F4"|no vision transformer`},
		{"Git LFS pointer", "a.safetensors", []byte("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 88283115\n"), "is a Git LFS pointer"},
		{"web page", "a.safetensors", []byte("<!doctype html><html>not found</html>"), "is a web page"},
		{"archive of torch.save", "a.safetensors", convolution, "contains no vision transformer"},
		{"a folder", "a.pth/x", nil, "the folder has none of model.safetensors"},
	} {
		t.Run(c.name, func(t *testing.T) {
			write(t, c.content, m.Checkout, "in", c.file)
			defer os.RemoveAll(filepath.Join(m.Checkout, "in"))
			file := filepath.Join(m.Checkout, "in", strings.TrimSuffix(c.file, "/x"))
			for _, args := range [][]string{
				{"import", file, "--out", "out.safetensors"},
				{"features", "photos", "--weights", file},
				{"run", "pretrain", "--profile", "smoke", "--set", "init=" + file, "--set", "first.encoder=vit-tiny", "--set", "second.encoder=vit-tiny"},
			} {
				stdout, stderr, status := outcome(t, onGo(semcon(t, m, args...)))
				want := 1
				if args[0] == "run" {
					want = 2 // The setting names the file, and is refused before anything runs.
				}
				if status != want || stdout != "" {
					t.Errorf("%s: exit status %d; printed %q", args[0], status, stdout)
				}
				wantLine(t, afterEngine(stderr), "semcon "+args[0]+": ", file)
				if !containsOne(stderr, strings.Split(c.part, "|")) {
					t.Errorf("%s: %q does not contain %s", args[0], stderr, c.part)
				}
			}
			for _, left := range []string{"out.safetensors", "features.npy", "ran"} {
				if _, err := os.Stat(filepath.Join(m.Checkout, left)); err == nil {
					t.Errorf("%s was written", left)
				}
			}
		})
	}
}

func containsOne(text string, parts []string) bool {
	for _, part := range parts {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}
