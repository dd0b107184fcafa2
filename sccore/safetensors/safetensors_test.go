package safetensors

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
)

func TestSafetensorsRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weights.safetensors")
	named := map[string]*tensors.Tensor{
		"/a/weight": tensors.FromValue([][]float32{{1, -2, 3}, {4, 5.5, -6}}),
		"/a/count":  tensors.FromValue([]int32{7, -8}),
		"/scalar":   tensors.FromScalar(float64(0.1)),
		"/bytes":    tensors.FromValue([]uint8{0, 255}),
		"/rng":      tensors.FromValue([]uint64{1 << 63, 2, 3}),
	}
	metadata := map[string]string{"step": "12", "text": "ü \"quoted\""}
	if err := Write(path, named, metadata); err != nil {
		t.Fatal(err)
	}
	got, gotMetadata, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(named) {
		t.Fatalf("%d tensors, want %d", len(got), len(named))
	}
	for name, want := range named {
		if !got[name].Equal(want) {
			t.Errorf("%s: %v, want %v", name, got[name], want)
		}
	}
	for key, want := range metadata {
		if gotMetadata[key] != want {
			t.Errorf("metadata %s: %q, want %q", key, gotMetadata[key], want)
		}
	}

	again := filepath.Join(t.TempDir(), "again.safetensors")
	if err := Write(again, got, gotMetadata); err != nil {
		t.Fatal(err)
	}
	first, _ := os.ReadFile(path)
	second, _ := os.ReadFile(again)
	if !bytes.Equal(first, second) {
		t.Error("the same tensors gave different bytes")
	}
}

// TestReadsPython reads a file that testdata/golden.py wrote with the format's own Python library.
func TestReadsPython(t *testing.T) {
	named, metadata, err := Read("testdata/python.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	if want := tensors.FromValue([][]float32{{0, 0.5, 1}, {1.5, 2, 2.5}}); !named["matrix"].Equal(want) {
		t.Errorf("matrix is %v", named["matrix"])
	}
	if want := tensors.FromValue([]int64{-1, 1 << 40}); !named["integers"].Equal(want) {
		t.Errorf("integers is %v", named["integers"])
	}
	if metadata["made by"] != "safetensors" {
		t.Errorf("metadata is %v", metadata)
	}
}

// file builds a safetensors file from the text of its header and its data.
func file(header string, data int) []byte {
	content := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(content, header...), make([]byte, data)...)
}

func TestHostileFiles(t *testing.T) {
	for name, content := range map[string][]byte{
		"empty":            {},
		"short":            {1, 2, 3},
		"huge header":      append(binary.LittleEndian.AppendUint64(nil, 1<<62), '{', '}'),
		"header past end":  binary.LittleEndian.AppendUint64(nil, 100),
		"no JSON":          file("hello", 0),
		"unknown type":     file(`{"a":{"dtype":"F7","shape":[1],"data_offsets":[0,4]}}`, 4),
		"truncated data":   file(`{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}`, 12),
		"wrong size":       file(`{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,12]}}`, 16),
		"negative offset":  file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}}`, 16),
		"reversed offsets": file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[8,4]}}`, 16),
		"negative shape":   file(`{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}`, 4),
		"overflow":         file(`{"a":{"dtype":"F64","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`, 0),
		"empty shape":      file(`{"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}`, 0),
		"odd metadata":     file(`{"__metadata__":{"a":1}}`, 0),
	} {
		path := filepath.Join(t.TempDir(), "hostile.safetensors")
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
		_, _, err := Read(path)
		if err == nil {
			t.Errorf("%s: read without an error", name)
		} else if !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %q is not one line naming the file", name, err)
		}
	}
}

func newStore(t *testing.T, values map[string]*tensors.Tensor) *model.Store {
	t.Helper()
	store := model.NewStore()
	for path, value := range values {
		if _, err := store.CreateVariable(path, value); err != nil {
			t.Fatal(err)
		}
	}
	return store
}

func TestCheckpoint(t *testing.T) {
	path := filepath.Join(t.TempDir(), "checkpoint.safetensors")
	saved := newStore(t, map[string]*tensors.Tensor{"/w": tensors.FromValue([]float32{1, 2}), "/opt/v": tensors.FromValue([]float32{3, 4})})
	if err := SaveCheckpoint(path, saved, map[string]string{"note": "x"}); err != nil {
		t.Fatal(err)
	}
	fresh := newStore(t, map[string]*tensors.Tensor{"/w": tensors.FromValue([]float32{0, 0}), "/opt/v": tensors.FromValue([]float32{0, 0})})
	metadata, err := LoadCheckpoint(path, fresh)
	if err != nil {
		t.Fatal(err)
	}
	if metadata["note"] != "x" || !fresh.GetVariable("/opt/v").MustValue().Equal(tensors.FromValue([]float32{3, 4})) {
		t.Errorf("loaded %v and %v", metadata, fresh.GetVariable("/opt/v").MustValue())
	}

	for name, other := range map[string]map[string]*tensors.Tensor{
		"/new": {"/w": tensors.FromValue([]float32{0, 0}), "/opt/v": tensors.FromValue([]float32{0, 0}), "/new": tensors.FromValue([]float32{0})},
		"/opt": {"/w": tensors.FromValue([]float32{0, 0})},
		"/w":   {"/w": tensors.FromValue([]float32{0}), "/opt/v": tensors.FromValue([]float32{0, 0})},
	} {
		store := newStore(t, other)
		_, err := LoadCheckpoint(path, store)
		if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), name) {
			t.Errorf("error %v does not name %s and %s", err, path, name)
		}
		for variable := range store.IterVariables() {
			for _, x := range tensors.MustCopyFlatData[float32](variable.MustValue()) {
				if x != 0 {
					t.Errorf("a checkpoint that does not fit changed %s", variable.Path())
				}
			}
		}
	}
}

func TestUninitialisedVariableIsAnError(t *testing.T) {
	store := model.NewStore()
	store.VariableWithShape("/w", shapes.Make(dtypes.Float32, 1), graph.Zeros)
	path := filepath.Join(t.TempDir(), "checkpoint.safetensors")
	if err := SaveCheckpoint(path, store, nil); err == nil || !strings.Contains(err.Error(), "/w") {
		t.Errorf("error %v does not name the variable without a value", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a half-made checkpoint stands")
	}
}

// TestWhatIsWrittenCanBeRead: a text may hold any JSON, and a file that Read would refuse is not written.
func TestWhatIsWrittenCanBeRead(t *testing.T) {
	path, curve := filepath.Join(t.TempDir(), "a.safetensors"), strings.Repeat(`{"loss":1},`, maxNames+1)
	named := map[string]*tensors.Tensor{"a": tensors.FromValue([]float32{1})}
	if err := Write(path, named, map[string]string{"note": curve}); err != nil {
		t.Fatal(err)
	}
	if got, metadata, err := Read(path); err != nil || metadata["note"] != curve || !got["a"].Equal(named["a"]) {
		t.Errorf("%d bytes of the note, %v", len(metadata["note"]), err)
	}
	facts := map[string]string{}
	for i := range maxNames {
		facts[fmt.Sprint(i)] = ""
	}
	many, long := filepath.Join(t.TempDir(), "many.safetensors"), map[string]*tensors.Tensor{strings.Repeat("a", maxField): named["a"]}
	short := RawTensor{Shape: []int{2}, Write: func(w io.Writer) error { _, err := w.Write(make([]byte, 4)); return err }}
	for want, err := range map[string]error{
		"lists more than 147456 names":   Write(many, named, facts),
		"longer than 64 KiB":             Write(many, long, nil),
		"4 bytes are no F32 of shape [2": WriteRaw(many, map[string]RawTensor{"a": short}, nil),
		"bytes are no F32 of shape [2]":  WriteNPY(many, short),
	} {
		if _, missing := os.Stat(many); missing == nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.300v, want %s; the file is there: %t", err, want, missing == nil)
		}
	}
}
