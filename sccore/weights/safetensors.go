package weights

import (
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
	"slices"
	"unicode/utf8"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/internal/atomicfile"
)

// maxHeader bounds the header of a safetensors file, as in the format's own readers.
const maxHeader = 100 << 20

// metadataKey is the header entry that holds free text instead of a tensor.
const metadataKey = "__metadata__"

// dtypeNames maps the dtypes that runs use to the format's names.
var dtypeNames = map[dtypes.DType]string{
	dtypes.Float32: "F32", dtypes.Float64: "F64", dtypes.Float16: "F16", dtypes.BFloat16: "BF16",
	dtypes.Int32: "I32", dtypes.Int64: "I64", dtypes.Uint8: "U8", dtypes.Uint32: "U32", dtypes.Uint64: "U64", dtypes.Bool: "BOOL",
}

// entry describes one tensor in the header of a safetensors file.
type entry struct {
	DType   string   `json:"dtype"`
	Shape   []int    `json:"shape"`
	Offsets [2]int64 `json:"data_offsets"`
}

// WriteSafetensors writes named tensors, sorted by name, and metadata to path. The write is atomic, and the same input always gives the same
// bytes.
func WriteSafetensors(path string, named map[string]*tensors.Tensor, metadata map[string]string) error {
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
	return writeSafetensors(path, contents, metadata)
}

// payload is a tensor to be written. Its function is called twice and writes the same size bytes each time.
type payload struct {
	dtype string
	shape []int
	size  int64
	write func(w io.Writer) error
}

func writeSafetensors(path string, named map[string]payload, metadata map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		switch {
		case key == digestKey:
			return fmt.Errorf("writing %s: the metadata key %q is reserved", path, key)
		case !utf8.ValidString(key) || !utf8.ValidString(metadata[key]): // JSON would change it.
			return fmt.Errorf("writing %s: the metadata %q: %.100q is not UTF-8", path, key, metadata[key])
		}
	}
	header := make(map[string]any, len(named)+1)
	withDigest := map[string]string{digestKey: noDigest}
	maps.Copy(withDigest, metadata)
	header[metadataKey] = withDigest
	names := slices.Sorted(maps.Keys(named))
	var offset int64
	for _, name := range names {
		c := named[name]
		header[name] = entry{c.dtype, append([]int{}, c.shape...), [2]int64{offset, offset + c.size}}
		offset += c.size
	}
	encoded, err := json.Marshal(header) // Keys are sorted.
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	for len(encoded)%8 != 0 { // The format aligns its data.
		encoded = append(encoded, ' ')
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
	encoded = setDigest(encoded, hex.EncodeToString(digest.Sum(nil)))
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

// ReadSafetensors reads every tensor and the metadata of the file at path. The error for a truncated or inconsistent file, or for another
// format, names path.
func ReadSafetensors(path string) (named map[string]*tensors.Tensor, metadata map[string]string, err error) {
	f, size, err := openFile(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	named, metadata, err = readSafetensors(f, size)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return named, metadata, nil
}

// ReadMetadata returns the metadata of the file at path, whose checksum it compares.
func ReadMetadata(path string) (map[string]string, error) {
	f, size, err := openFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	_, metadata, _, err := parseHeader(f, size)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return metadata, nil
}

func readSafetensors(r io.ReaderAt, size int64) (map[string]*tensors.Tensor, map[string]string, error) {
	entries, metadata, data, err := parseHeader(r, size)
	if err != nil {
		return nil, nil, err
	}
	named := make(map[string]*tensors.Tensor, len(entries))
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		if named[name], err = entries[name].read(data); err != nil {
			return nil, nil, fmt.Errorf("tensor %.80q: %w", name, err)
		}
	}
	return named, metadata, nil
}

// parseHeader reads the header of a file of size bytes. It returns the description of each tensor, the metadata, and the part of the file that
// holds the tensors. As the format requires, tensors must fill this part without overlaps or gaps, and names must be unique.
func parseHeader(r io.ReaderAt, size int64) (entries map[string]entry, metadata map[string]string, data *io.SectionReader, err error) {
	var start [8]byte
	if _, err := r.ReadAt(start[:], 0); err != nil || size < 8 {
		return nil, nil, nil, fmt.Errorf("not a safetensors file: %d bytes", size)
	}
	length := binary.LittleEndian.Uint64(start[:])
	if length > maxHeader || length > uint64(size-8) {
		return nil, nil, nil, fmt.Errorf("not a safetensors file, or truncated: header of %d bytes in a file of %d", length, size)
	}
	if entries, metadata, err = readHeader(io.NewSectionReader(r, 8, int64(length))); err != nil {
		return nil, nil, nil, err
	}
	data = io.NewSectionReader(r, 8+int64(length), size-8-int64(length))
	byOffset := slices.SortedFunc(maps.Keys(entries), func(a, b string) int {
		x, y := entries[a].Offsets, entries[b].Offsets
		return cmp.Or(cmp.Compare(x[0], y[0]), cmp.Compare(x[1], y[1]), cmp.Compare(a, b))
	})
	end := int64(0)
	for _, name := range byOffset {
		at := entries[name].Offsets
		if at[0] != end || at[1] < at[0] || at[1] > data.Size() {
			return nil, nil, nil, fmt.Errorf("tensor %.80q: has bytes %d to %d of %d, but the tensor before it ends at %d", name, at[0], at[1], data.Size(), end)
		}
		end = at[1]
	}
	if end != data.Size() {
		return nil, nil, nil, fmt.Errorf("the tensors have %d bytes, but the file holds %d for them", end, data.Size())
	}
	if err := checkDigest(metadata, io.NewSectionReader(r, 8, int64(length)), data); err != nil {
		return nil, nil, nil, err
	}
	return entries, metadata, data, nil
}

// check returns the dtype and the size in bytes of the tensor, if its type, shape and offsets agree.
func (e entry) check() (dtypes.DType, int64, error) {
	for dtype, name := range dtypeNames {
		if name != e.DType {
			continue
		}
		size := int64(dtype.Size())
		for _, dim := range e.Shape {
			if dim < 0 || (dim > 0 && size > math.MaxInt64/int64(dim)) {
				return dtype, 0, fmt.Errorf("impossible shape %v", e.Shape)
			}
			size *= int64(dim)
		}
		switch {
		case e.Offsets[1]-e.Offsets[0] != size:
			return dtype, 0, fmt.Errorf("bytes %d to %d do not hold shape %v of %s", e.Offsets[0], e.Offsets[1], e.Shape, e.DType)
		case size == 0:
			return dtype, 0, fmt.Errorf("empty shape %v", e.Shape)
		}
		return dtype, size, nil
	}
	return dtypes.InvalidDType, 0, fmt.Errorf("unknown type %.20q", e.DType)
}

// read reads the tensor that e describes from the data part of the file.
func (e entry) read(data io.ReaderAt) (*tensors.Tensor, error) {
	dtype, _, err := e.check()
	if err != nil {
		return nil, err
	}
	tensor := tensors.FromShape(shapes.Make(dtype, e.Shape...))
	var readErr error
	err = tensor.MutableBytes(func(bytes []byte) { _, readErr = data.ReadAt(bytes, e.Offsets[0]) })
	if err = errors.Join(err, readErr); err != nil {
		return nil, err
	}
	return tensor, nil
}
