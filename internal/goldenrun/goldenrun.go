// Package goldenrun checks that training does not change: a checkpoint that an earlier version wrote in the middle of a run can be resumed, and
// the following steps give the same numbers and the same last checkpoint, byte for byte.
package goldenrun

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/dsnet/try"
	"github.com/samber/lo"
)

var update = flag.Bool("update", false, "write the golden runs under testdata anew, with the present code")

// Run is a training run.
type Run struct {
	Name          string // Name of the two files under testdata, NAME.safetensors and NAME.json.
	Middle, Steps int    // The step of the checkpoint, and the last step.
	Begin         func() error
	Step          func() (metrics any, err error)
	Save          func(path, note string) error
	Resume        func(path string) (note string, err error)
}

// golden is the result of an uninterrupted run.
type golden struct {
	Metadata map[string]string `json:"metadata"` // Metadata of the last checkpoint.
	Tensors  string            `json:"tensors"`  // SHA-256 of its tensors, including their names and shapes.
	Steps    []json.RawMessage `json:"steps"`    // Metrics of the steps after the middle.
}

// note is stored in every checkpoint.
const note = `["a note"]`

// exact reports whether the Go engine of this build rounds like the one that wrote the golden runs: on every amd64 machine, without SIMD.
var exact = runtime.GOARCH == "amd64" && !strings.Contains(runtime.Version(), "simd")

// Check resumes the run from testdata and compares the following steps. Where the Go engine rounds differently, Check only requires that the run resumes and that
// checkpoints have the same kinds of metadata. With -update it writes the files instead.
func (r Run) Check(t *testing.T) {
	t.Helper()
	defer try.F(t.Fatal)
	checkpoint, ends := filepath.Join("testdata", r.Name+".safetensors"), filepath.Join("testdata", r.Name+".json")
	middle, last := filepath.Join(t.TempDir(), "middle.safetensors"), filepath.Join(t.TempDir(), "last.safetensors")
	if *update {
		middle = checkpoint
	}
	try.E(r.Begin())
	r.steps(r.Middle)
	try.E(r.Save(middle, note))
	if *update {
		got := golden{Steps: r.steps(r.Steps - r.Middle)}
		try.E(r.Save(last, note))
		got.Metadata, got.Tensors = read(t, last)
		content := try.E1(json.MarshalIndent(got, "", "\t"))
		try.E(os.WriteFile(ends, append(content, '\n'), 0o666))
		return
	}
	// The run from the beginning has written the same checkpoint, and a run that resumes it continues like the uninterrupted one.
	wantMetadata, wantTensors := read(t, checkpoint)
	r.compare(t, "the checkpoint in the middle", middle, wantMetadata, wantTensors)

	var want golden
	try.E(json.Unmarshal(try.E1(os.ReadFile(ends)), &want))
	try.E(r.Begin())
	if got, err := r.Resume(checkpoint); err != nil || got != note {
		t.Fatalf("%s: resumed with note %q: %v", checkpoint, got, err)
	}
	for i, got := range r.steps(r.Steps - r.Middle) {
		var compact bytes.Buffer
		try.E(json.Compact(&compact, want.Steps[i]))
		if exact && !bytes.Equal(got, compact.Bytes()) {
			t.Errorf("%s: %d steps after resuming:\n%s, want\n%s", r.Name, i+1, got, compact.Bytes())
		}
	}
	try.E(r.Save(last, note))
	r.compare(t, "the last checkpoint", last, want.Metadata, want.Tensors)
}

// compare reports differences of a checkpoint.
func (r Run) compare(t *testing.T, what, path string, want map[string]string, wantTensors string) {
	t.Helper()
	got, tensors := read(t, path)
	for key := range want {
		if exact && got[key] != want[key] {
			t.Errorf("%s: %s has %s %s, want %s", r.Name, what, key, got[key], want[key])
		}
	}
	if len(got) != len(want) || exact && tensors != wantTensors {
		t.Errorf("%s: %s has metadata %v, want %v, and tensors %s, want %s", r.Name, what, got, want, tensors, wantTensors)
	}
}

// steps runs some steps and returns their metrics.
func (r Run) steps(count int) []json.RawMessage {
	return lo.Times(count, func(int) json.RawMessage { return try.E1(json.Marshal(try.E1(r.Step()))) })
}

// read returns the metadata of a checkpoint and a hash of the rest.
func read(t *testing.T, path string) (metadata map[string]string, tensors string) {
	t.Helper()
	content := try.E1(os.ReadFile(path))
	length := binary.LittleEndian.Uint64(content)
	if length > math.MaxInt32 {
		t.Fatalf("%s: a header of %d bytes", path, length)
	}
	var header map[string]json.RawMessage
	try.E(json.Unmarshal(content[8:8+length], &header))
	try.E(json.Unmarshal(header["__metadata__"], &metadata))
	delete(metadata, "semcon.sha256") // The weights package's own checksum, which it verifies itself.
	delete(header, "__metadata__")
	return metadata, fmt.Sprintf("%x", sha256.Sum256(append(try.E1(json.Marshal(header)), content[8+length:]...)))
}
