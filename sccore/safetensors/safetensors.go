// Package safetensors reads and writes the safetensors format, and checkpoints in it. It treats every file as hostile: memory is bounded by the size of
// the file, and the error is one line that names the file.
package safetensors

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/internal/jsonstream"
)

const (
	// metadataKey is the header entry that holds free text instead of a tensor.
	metadataKey = "__metadata__"
	// digestKey is the metadata entry of a file's own digest: the SHA-256 of its header, in which the digest itself is [noDigest], and of its tensors.
	// Files of others do not have it and are not checked.
	digestKey = "semcon.sha256"
)

// noDigest holds the digest's place while it is computed.
var noDigest = strings.Repeat("0", 2*sha256.Size)

// digestEntry is how the digest stands in a header.
func digestEntry(digest string) []byte { return []byte(`"` + digestKey + `":"` + digest + `"`) }

// dtypeNames maps the dtypes that runs use to the format's names.
var dtypeNames = map[dtypes.DType]string{
	dtypes.Float32: "F32", dtypes.Float64: "F64", dtypes.Float16: "F16", dtypes.BFloat16: "BF16",
	dtypes.Int32: "I32", dtypes.Int64: "I64", dtypes.Uint8: "U8", dtypes.Uint32: "U32", dtypes.Uint64: "U64", dtypes.Bool: "BOOL",
}

// Write writes named tensors, sorted by name, and metadata to path. The write is atomic, and the same input always gives the same bytes.
func Write(path string, named map[string]*tensors.Tensor, metadata map[string]string) error {
	contents := make(map[string]payload, len(named))
	for name, tensor := range named {
		dtype, ok := dtypeNames[tensor.DType()]
		if !ok {
			return fmt.Errorf("writing %s: tensor %q has type %s, which safetensors cannot hold", path, name, tensor.DType())
		}
		contents[name] = payload{dtype, tensor.Shape().Dimensions, int64(tensor.ByteSize()), func(w io.Writer) error {
			var writeErr error
			err := tensor.ConstBytes(func(data []byte) { _, writeErr = w.Write(data) })
			return errors.Join(err, writeErr)
		}}
	}
	return write(path, contents, metadata)
}

// payload is a tensor to be written. Its function is called twice and writes the same size bytes each time.
type payload struct {
	dtype string
	shape []int
	size  int64
	write func(w io.Writer) error
}

func write(path string, named map[string]payload, metadata map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		switch {
		case key == digestKey:
			return fmt.Errorf("writing %s: the metadata key %q is reserved", path, key)
		case !utf8.ValidString(key) || !utf8.ValidString(metadata[key]): // JSON would change it.
			return fmt.Errorf("writing %s: the metadata %q: %.100q is not UTF-8", path, key, metadata[key])
		}
	}
	header, withDigest := make(map[string]any, len(named)+1), map[string]string{digestKey: noDigest}
	maps.Copy(withDigest, metadata)
	header[metadataKey] = withDigest
	names := slices.Sorted(maps.Keys(named))
	var offset int64
	for _, name := range names {
		c := named[name]
		header[name] = struct {
			DType   string   `json:"dtype"`
			Shape   []int    `json:"shape"`
			Offsets [2]int64 `json:"data_offsets"`
		}{c.dtype, append([]int{}, c.shape...), [2]int64{offset, offset + c.size}}
		offset += c.size
	}
	encoded, err := json.Marshal(header) // Keys are sorted.
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	for len(encoded)%8 != 0 { // The format aligns its data.
		encoded = append(encoded, ' ')
	}
	if len(encoded) > maxHeader {
		return fmt.Errorf("writing %s: a header of %d bytes, at most %d can be read", path, len(encoded), maxHeader)
	}
	writeTensors := func(w io.Writer) error {
		for _, name := range names {
			if err := named[name].write(w); err != nil {
				return err
			}
		}
		return nil
	}
	digest := sha256.New()
	digest.Write(encoded)
	if err := writeTensors(digest); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	encoded = bytes.Replace(encoded, digestEntry(noDigest), digestEntry(hex.EncodeToString(digest.Sum(nil))), 1)
	return atomicfile.Write(path, func(w io.Writer) error {
		if err := binary.Write(w, binary.LittleEndian, uint64(len(encoded))); err != nil {
			return err
		}
		if _, err := w.Write(encoded); err != nil {
			return err
		}
		return writeTensors(w)
	})
}

// Read reads every tensor and the metadata of the file at path. The error for a truncated or inconsistent file, or for another format, names path.
func Read(path string) (named map[string]*tensors.Tensor, metadata map[string]string, err error) {
	named = map[string]*tensors.Tensor{}
	metadata, err = inspect(path, func(name string, t Tensor) (err error) {
		if named[name], err = t.Read(); err != nil {
			err = fmt.Errorf("tensor %.80q: %w", name, err)
		}
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return named, metadata, nil
}

// ReadMetadata returns the metadata of the file at path, whose checksum it compares.
func ReadMetadata(path string) (map[string]string, error) {
	return inspect(path, func(string, Tensor) error { return nil })
}

// inspect calls each with the tensors of a file, sorted by name.
func inspect(path string, each func(name string, t Tensor) error) (map[string]string, error) {
	f, size, err := OpenFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, metadata, err := Open(f, size)
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		if err == nil {
			err = each(name, entries[name])
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return metadata, nil
}

// OpenFile opens a regular file and returns its size. It does not open anything else, because opening a pipe would block forever.
func OpenFile(name string) (*os.File, int64, error) {
	info, err := os.Stat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: is not a regular file", name)
	}
	if err != nil {
		return nil, 0, err
	}
	f, err := os.Open(name)
	return f, info.Size(), err
}

// Tensor is a tensor in a file, read on demand.
type Tensor struct {
	DType string // In the format's names.
	Shape []int

	offsets [2]int64
	data    *io.SectionReader
}

// Open reads the header of a file of size bytes and compares its checksum, if it has one. It returns the tensors, which can be read while the file is
// open, and the metadata. As the format requires, tensors must fill the rest of the file without overlaps or gaps, and names must be unique.
func Open(r io.ReaderAt, size int64) (entries map[string]Tensor, metadata map[string]string, err error) {
	var start [8]byte
	if _, err := r.ReadAt(start[:], 0); err != nil || size < 8 {
		return nil, nil, fmt.Errorf("not a safetensors file: %d bytes", size)
	}
	length := binary.LittleEndian.Uint64(start[:])
	switch begin := [1]byte{}; {
	case length > maxHeader:
		return nil, nil, fmt.Errorf("not a safetensors file: header of %d bytes", length)
	case length > uint64(size-8):
		if _, err := r.ReadAt(begin[:], 8); err == nil && begin[0] == '{' {
			return nil, nil, fmt.Errorf("the file ends too early: it has %d bytes, and its header alone %d", size, length)
		}
		return nil, nil, fmt.Errorf("not a safetensors file: header of %d bytes in a file of %d", length, size)
	}
	header := make([]byte, length)
	if _, err := r.ReadAt(header, 8); err != nil && err != io.EOF {
		return nil, nil, err
	}
	if !utf8.Valid(header) { // Which the decoder of JSON would change to U+FFFD.
		return nil, nil, errors.New("header: a name or a text is not UTF-8")
	}
	if entries, metadata, err = readHeader(header); err != nil {
		return nil, nil, err
	}
	data := io.NewSectionReader(r, 8+int64(length), size-8-int64(length))
	byOffset := slices.SortedFunc(maps.Keys(entries), func(a, b string) int {
		x, y := entries[a].offsets, entries[b].offsets
		return cmp.Or(cmp.Compare(x[0], y[0]), cmp.Compare(x[1], y[1]), cmp.Compare(a, b))
	})
	end := int64(0)
	for _, name := range byOffset {
		t := entries[name]
		at := t.offsets
		if at[0] == end && at[1] > data.Size() {
			return nil, nil, fmt.Errorf("tensor %.80q: has bytes %d to %d of %d: the file ends too early", name, at[0], at[1], data.Size())
		}
		if at[0] != end || at[1] < at[0] {
			return nil, nil, fmt.Errorf("tensor %.80q: has bytes %d to %d of %d, but the tensor before it ends at %d", name, at[0], at[1], data.Size(), end)
		}
		end, t.data = t.offsets[1], data
		entries[name] = t
	}
	if end != data.Size() {
		return nil, nil, fmt.Errorf("the tensors have %d bytes, but the file holds %d for them", end, data.Size())
	}
	if want, ok := metadata[digestKey]; ok {
		delete(metadata, digestKey)
		digest := sha256.New()
		digest.Write(bytes.Replace(header, digestEntry(want), digestEntry(noDigest), 1))
		if _, err := io.Copy(digest, data); err != nil {
			return nil, nil, err
		}
		if hex.EncodeToString(digest.Sum(nil)) != want {
			return nil, nil, errors.New("damaged: the content does not agree with the checksum in its metadata")
		}
	}
	return entries, metadata, nil
}

// check returns the dtype of the tensor if its type, shape and offsets agree.
func (t Tensor) check() (dtypes.DType, error) {
	for dtype, name := range dtypeNames {
		if name != t.DType {
			continue
		}
		size := int64(dtype.Size())
		for _, dim := range t.Shape {
			if dim < 0 || (dim > 0 && size > math.MaxInt64/int64(dim)) {
				return dtype, fmt.Errorf("impossible shape %v", t.Shape)
			}
			size *= int64(dim)
		}
		switch {
		case t.offsets[1]-t.offsets[0] != size:
			return dtype, fmt.Errorf("bytes %d to %d do not hold shape %v of %s", t.offsets[0], t.offsets[1], t.Shape, t.DType)
		case size == 0:
			return dtype, fmt.Errorf("empty shape %v", t.Shape)
		}
		return dtype, nil
	}
	return dtypes.InvalidDType, fmt.Errorf("unknown type %.20q", t.DType)
}

// Read reads the tensor.
func (t Tensor) Read() (*tensors.Tensor, error) {
	dtype, err := t.check()
	if err != nil {
		return nil, err
	}
	tensor := tensors.FromShape(shapes.Make(dtype, t.Shape...))
	var readErr error
	err = tensor.MutableBytes(func(bytes []byte) { _, readErr = t.data.ReadAt(bytes, t.offsets[0]) })
	if err = errors.Join(err, readErr); err != nil {
		return nil, err
	}
	return tensor, nil
}

// Bytes reads the values of the tensor, row-major and little-endian.
func (t Tensor) Bytes() (dtypes.DType, []byte, error) {
	dtype, err := t.check()
	if err != nil {
		return dtype, nil, err
	}
	raw := make([]byte, t.offsets[1]-t.offsets[0])
	_, err = t.data.ReadAt(raw, t.offsets[0])
	return dtype, raw, err
}

// Bounds of a header. Published ones have less than 1 MiB; reading one takes a few times its size.
const (
	maxHeader  = 16 << 20 // In bytes.
	maxField   = 1 << 16  // Of a name, or of a part of a tensor's description.
	maxTensors = 1 << 15
	maxFacts   = 1 << 14 // Of the metadata.
	maxAxes    = 16
)

// readHeader reads the JSON of a header: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, "__metadata__": {"key": "value"}}.
// No object may have a name twice, and nothing is read that does not belong there.
func readHeader(header []byte) (entries map[string]Tensor, metadata map[string]string, err error) {
	json := jsonstream.New(bytes.NewReader(header))
	json.Limit = maxField
	entries = map[string]Tensor{}
	err = unique(json, maxTensors, func(name string) (err error) {
		if name != metadataKey {
			entries[name], err = readTensor(json)
			return err
		}
		metadata = map[string]string{}
		return unique(json, maxFacts, func(name string) error {
			var text string
			json.Limit = maxHeader
			err := json.Decode(&text)
			json.Limit, metadata[name] = maxField, text
			return err
		})
	})
	if err == nil {
		err = json.End()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("header: %w", err)
	}
	return entries, metadata, nil
}

// unique reads an object of at most so many names, none of them twice.
func unique(json *jsonstream.Reader, most int, member func(name string) error) error {
	seen := map[string]bool{}
	return json.Object(func(name string) error {
		switch {
		case seen[name]:
			return fmt.Errorf("%.80q is in the header twice", name)
		case len(seen) == most:
			return fmt.Errorf("it lists more than %d names", most)
		}
		seen[name] = true
		if err := member(name); err != nil {
			return fmt.Errorf("%.80q: %w", name, err)
		}
		return nil
	})
}

// readTensor reads the description of a tensor.
func readTensor(json *jsonstream.Reader) (t Tensor, err error) {
	fields := 0
	var offsets []*int64 // A null is no number.
	err = unique(json, 3, func(name string) error {
		fields++
		switch name {
		case "dtype":
			return json.Decode(&t.DType)
		case "shape":
			return json.Decode(&t.Shape)
		case "data_offsets":
			return json.Decode(&offsets)
		}
		return errors.New("unknown field")
	})
	switch {
	case err != nil:
	case fields != 3 || t.Shape == nil || len(offsets) != 2 || offsets[0] == nil || offsets[1] == nil:
		err = errors.New("want dtype, shape and two data_offsets")
	case len(t.Shape) > maxAxes:
		err = fmt.Errorf("a list of more than %d numbers, an impossible shape", maxAxes)
	default:
		t.offsets = [2]int64{*offsets[0], *offsets[1]}
	}
	return t, err
}
