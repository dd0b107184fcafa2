// Package safetensors reads and writes the safetensors format, and checkpoints in it. It treats every file as hostile: memory is bounded by the size of
// the file, and the error is one line that names the file.
package safetensors

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dsnet/try"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/samber/lo"
	"github.com/semcon/semcon/internal/atomicfile"
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
	raw := make(map[string]RawTensor, len(named))
	for name, tensor := range named {
		if dtypeNames[tensor.DType()] == "" {
			return fmt.Errorf("writing %s: tensor %q has type %s, which safetensors cannot hold", path, name, tensor.DType())
		}
		raw[name] = RawTensor{tensor.Shape().Dimensions, func(w io.Writer) error {
			var writeErr error
			err := tensor.ConstBytes(func(data []byte) { _, writeErr = w.Write(data) })
			return errors.Join(err, writeErr)
		}, tensor.DType()}
	}
	return WriteRaw(path, raw, metadata)
}

// RawTensor is a tensor of float32 values that is written without being held in memory.
type RawTensor struct {
	Shape []int
	Write func(w io.Writer) error // Writes the values, little-endian and row-major, the same ones in each call.
	dtype dtypes.DType            // Of tensors that [Write] is given; not set for float32.
}

// kind is the dtype and the number of bytes.
func (t RawTensor) kind() (dtype dtypes.DType, bytes int64) {
	dtype = cmp.Or(t.dtype, dtypes.Float32)
	return dtype, int64(dtype.Size()) * int64(lo.Product(t.Shape))
}

// writeTo writes the tensor, and fails if it is not as large as its shape says.
func (t RawTensor) writeTo(w io.Writer) error {
	counted := counter{Writer: w}
	err := t.Write(&counted)
	if dtype, want := t.kind(); err == nil && counted.bytes != want {
		err = fmt.Errorf("%d bytes are no %s of shape %v", counted.bytes, dtypeNames[dtype], t.Shape)
	}
	return err
}

// counter counts the bytes that go to a writer.
type counter struct {
	io.Writer
	bytes int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.bytes += int64(n)
	return n, err
}

// WriteRaw is [Write] for such tensors.
func WriteRaw(path string, named map[string]RawTensor, metadata map[string]string) (err error) {
	defer try.HandleF(&err, func() { err = fmt.Errorf("writing %s: %w", path, err) })
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		switch {
		case key == digestKey:
			try.E(fmt.Errorf("the metadata key %q is reserved", key))
		case !utf8.ValidString(key) || !utf8.ValidString(metadata[key]): // JSON would change it.
			try.E(fmt.Errorf("the metadata %q: %.100q is not UTF-8", key, metadata[key]))
		}
	}
	header := map[string]any{metadataKey: lo.Assign(map[string]string{digestKey: noDigest}, metadata)}
	names := slices.Sorted(maps.Keys(named))
	var offset int64
	for _, name := range names {
		dtype, size := named[name].kind()
		header[name] = Tensor{DType: dtypeNames[dtype], Shape: append([]int{}, named[name].Shape...), Offsets: []int64{offset, offset + size}}
		offset += size
	}
	encoded := try.E1(stdjson.Marshal(header)) // Keys are sorted.
	for len(encoded)%8 != 0 {                  // The format aligns its data.
		encoded = append(encoded, ' ')
	}
	if len(encoded) > maxHeader {
		try.E(fmt.Errorf("a header of %d bytes, at most %d can be read", len(encoded), maxHeader))
	}
	try.E2(readHeader(encoded))
	writeTensors := func(w io.Writer) error {
		for _, name := range names {
			if err := named[name].writeTo(w); err != nil {
				return fmt.Errorf("tensor %.80q: %w", name, err)
			}
		}
		return nil
	}
	defer atomicfile.Begin()() // The digest of a large checkpoint takes seconds.
	digest := sha256.New()
	digest.Write(encoded)
	try.E(writeTensors(digest))
	encoded = bytes.Replace(encoded, digestEntry(noDigest), digestEntry(hex.EncodeToString(digest.Sum(nil))), 1)
	return atomicfile.Write(path, func(w io.Writer) (err error) {
		defer try.Handle(&err)
		try.E1(w.Write(append(binary.LittleEndian.AppendUint64(nil, uint64(len(encoded))), encoded...)))
		return writeTensors(w)
	})
}

// Read reads every tensor and the metadata of the file at path. The error for a truncated or inconsistent file, or for another format, names path.
func Read(path string) (named map[string]*tensors.Tensor, metadata map[string]string, err error) {
	named = map[string]*tensors.Tensor{}
	metadata, err = inspect(path, func(name string, t Tensor) (err error) {
		named[name], err = t.Read()
		return err
	})
	return named, metadata, err
}

// ReadMetadata returns the metadata of the file at path, whose checksum it compares.
func ReadMetadata(path string) (map[string]string, error) {
	return inspect(path, func(string, Tensor) error { return nil })
}

// inspect calls each with the tensors of a file, sorted by name.
func inspect(path string, each func(name string, t Tensor) error) (_ map[string]string, err error) {
	defer try.Handle(&err)
	f, size := try.E2(OpenFile(path))
	defer f.Close()
	defer try.HandleF(&err, func() { err = fmt.Errorf("%s: %w", path, err) })
	entries, metadata := try.E2(Open(f, size))
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		if err := each(name, entries[name]); err != nil {
			try.E(fmt.Errorf("tensor %.80q: %w", name, err))
		}
	}
	return metadata, nil
}

// OpenFile opens a regular file and returns its size. It does not open anything else, because opening a pipe would block forever.
func OpenFile(name string) (_ *os.File, size int64, err error) {
	defer try.Handle(&err)
	info := try.E1(os.Stat(name))
	if !info.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%s: is not a regular file", name)
	}
	return try.E1(os.Open(name)), info.Size(), nil
}

// Tensor is a tensor in a file, read on demand.
type Tensor struct {
	DType   string  `json:"dtype"` // In the format's names.
	Shape   []int   `json:"shape"`
	Offsets []int64 `json:"data_offsets"` // Where its bytes begin and end, among those of all tensors.

	data *io.SectionReader
}

// Open reads the header of a file of size bytes and compares its checksum, if it has one. It returns the tensors, which can be read while the file is
// open, and the metadata. As the format requires, tensors must fill the rest of the file without overlaps or gaps, and names must be unique.
func Open(r io.ReaderAt, size int64) (entries map[string]Tensor, metadata map[string]string, err error) {
	defer try.Handle(&err)
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
	entries, metadata = try.E2(readHeader(header))
	data := io.NewSectionReader(r, 8+int64(length), size-8-int64(length))
	byOffset := slices.SortedFunc(maps.Keys(entries), func(a, b string) int {
		x, y := entries[a].Offsets, entries[b].Offsets
		return cmp.Or(cmp.Compare(x[0], y[0]), cmp.Compare(x[1], y[1]), cmp.Compare(a, b))
	})
	end := int64(0)
	for _, name := range byOffset {
		t := entries[name]
		at := t.Offsets
		if at[0] == end && at[1] > data.Size() {
			return nil, nil, fmt.Errorf("tensor %.80q: has bytes %d to %d of %d: the file ends too early", name, at[0], at[1], data.Size())
		}
		if at[0] != end || at[1] < at[0] {
			return nil, nil, fmt.Errorf("tensor %.80q: has bytes %d to %d of %d, but the tensor before it ends at %d", name, at[0], at[1], data.Size(), end)
		}
		end, t.data = t.Offsets[1], data
		entries[name] = t
	}
	if end != data.Size() {
		return nil, nil, fmt.Errorf("the tensors have %d bytes, but the file holds %d for them", end, data.Size())
	}
	if want, ok := metadata[digestKey]; ok {
		delete(metadata, digestKey)
		digest := sha256.New()
		digest.Write(bytes.Replace(header, digestEntry(want), digestEntry(noDigest), 1))
		try.E1(io.Copy(digest, data))
		if hex.EncodeToString(digest.Sum(nil)) != want {
			return nil, nil, errors.New("damaged: the content does not agree with the checksum in its metadata")
		}
	}
	return entries, metadata, nil
}

// check returns the dtype of the tensor if its type, shape and offsets agree.
func (t Tensor) check() (dtypes.DType, error) {
	dtype, known := lo.FindKey(dtypeNames, t.DType)
	if !known {
		return dtype, fmt.Errorf("unknown type %.20q", t.DType)
	}
	size := int64(dtype.Size())
	for _, dim := range t.Shape {
		if dim < 0 || (dim > 0 && size > math.MaxInt64/int64(dim)) {
			return dtype, fmt.Errorf("impossible shape %v", t.Shape)
		}
		size *= int64(dim)
	}
	switch {
	case t.Offsets[1]-t.Offsets[0] != size:
		return dtype, fmt.Errorf("bytes %d to %d do not hold shape %v of %s", t.Offsets[0], t.Offsets[1], t.Shape, t.DType)
	case size == 0:
		return dtype, fmt.Errorf("empty shape %v", t.Shape)
	}
	return dtype, nil
}

// Read reads the tensor.
func (t Tensor) Read() (_ *tensors.Tensor, err error) {
	defer try.Handle(&err)
	tensor := tensors.FromShape(shapes.Make(try.E1(t.check()), t.Shape...))
	refused := tensor.MutableBytes(func(bytes []byte) { _, err = t.data.ReadAt(bytes, t.Offsets[0]) })
	return tensor, cmp.Or(refused, err)
}

// Bytes reads the values of the tensor, row-major and little-endian.
func (t Tensor) Bytes() (dtype dtypes.DType, raw []byte, err error) {
	defer try.Handle(&err)
	dtype = try.E1(t.check())
	raw = make([]byte, t.Offsets[1]-t.Offsets[0])
	_, err = t.data.ReadAt(raw, t.Offsets[0])
	return dtype, raw, err
}

// Bounds of a header: its bytes, its names (32,768 tensors have four each, and there may be 16,384 texts), the bytes of a tensor's name and description, and
// the axes of a shape. Published headers have less than 1 MiB; reading one takes a few times its size.
const maxHeader, maxNames, maxField, maxAxes = 16 << 20, 4*1<<15 + 1<<14, 1 << 16, 16

// readHeader reads the JSON of a header: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, "__metadata__": {"key": "value"}}.
// No object may have a name twice, and nothing is read that does not belong there.
func readHeader(header []byte) (entries map[string]Tensor, metadata map[string]string, err error) {
	decoder, names := jsontext.NewDecoder(bytes.NewBuffer(header), jsontext.AllowDuplicateNames(true)), 0
	for err == nil { // Unmarshal reports what is no JSON.
		if _, err = decoder.ReadToken(); decoder.StackDepth() > 0 {
			if kind, read := decoder.StackIndex(decoder.StackDepth()); kind == '{' && read%2 == 1 {
				names++
			}
		}
		if names > maxNames {
			return nil, nil, fmt.Errorf("header: it lists more than %d names", maxNames)
		}
	}
	var members map[string]jsontext.Value
	if err := json.Unmarshal(header, &members); err != nil {
		return nil, nil, fmt.Errorf("header: %.300w", err)
	}
	entries = make(map[string]Tensor, len(members))
	for _, name := range slices.Sorted(maps.Keys(members)) {
		var t Tensor
		switch text := members[name]; {
		case name == metadataKey:
			err = json.Unmarshal(text, &metadata)
		case len(name)+len(text) > maxField:
			err = fmt.Errorf("it is longer than %d KiB", maxField>>10)
		default:
			err = json.Unmarshal(text, &t, json.RejectUnknownMembers(true))
			entries[name] = t
			if err == nil && (t.Shape == nil || len(t.Offsets) != 2 || bytes.Contains(text, []byte("null"))) { // A null is no number.
				err = errors.New("want dtype, shape and two data_offsets")
			} else if err == nil && len(t.Shape) > maxAxes {
				err = fmt.Errorf("a list of more than %d numbers, an impossible shape", maxAxes)
			}
		}
		if err != nil {
			return nil, nil, fmt.Errorf("header: %.80q: %.300w", name, err)
		}
	}
	return entries, metadata, nil
}

// WriteNPY writes a tensor as a NumPy file. The write is atomic.
func WriteNPY(path string, values RawTensor) error {
	sizes := lo.Map(values.Shape, func(dim, _ int) string { return fmt.Sprint(dim) })
	header := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }", strings.Join(sizes, ", "))
	header += strings.Repeat(" ", 63-(10+len(header))%64) + "\n" // The format aligns its data to 64 bytes.
	return atomicfile.Write(path, func(w io.Writer) (err error) {
		defer try.Handle(&err)
		start := binary.LittleEndian.AppendUint16([]byte("\x93NUMPY\x01\x00"), uint16(len(header)))
		try.E1(w.Write(append(start, header...)))
		return values.writeTo(w)
	})
}
