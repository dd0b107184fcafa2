// Package weights writes and reads the numbers of a model: run checkpoints, in the safetensors format, and transformers as PyTorch and timm
// keep them.
package weights

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/internal/atomicfile"
)

// maxHeader bounds the header of a safetensors file, as the format's own readers do.
const maxHeader = 100 << 20

// metadataKey is the header entry that holds free text instead of a tensor.
const metadataKey = "__metadata__"

// dtypeNames are the format's names of the element types that runs use.
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

// WriteSafetensors writes named tensors and metadata to path, whole or not at all. The same input gives the same bytes: tensors are in
// the order of their names.
func WriteSafetensors(path string, named map[string]*tensors.Tensor, metadata map[string]string) error {
	header := make(map[string]any, len(named)+1)
	if len(metadata) > 0 {
		header[metadataKey] = metadata
	}
	names := slices.Sorted(maps.Keys(named))
	var offset int64
	for _, name := range names {
		tensor := named[name]
		dtype, ok := dtypeNames[tensor.DType()]
		if !ok {
			return fmt.Errorf("writing %s: tensor %q has type %s, which safetensors cannot hold", path, name, tensor.DType())
		}
		size := int64(tensor.ByteSize())
		header[name] = entry{dtype, append([]int{}, tensor.Shape().Dimensions...), [2]int64{offset, offset + size}}
		offset += size
	}
	encoded, err := json.Marshal(header) // Sorts its keys.
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	for len(encoded)%8 != 0 { // The format aligns its data.
		encoded = append(encoded, ' ')
	}
	return atomicfile.Write(path, func(w io.Writer) error {
		if err := binary.Write(w, binary.LittleEndian, uint64(len(encoded))); err != nil {
			return err
		}
		if _, err := w.Write(encoded); err != nil {
			return err
		}
		for _, name := range names {
			var writeErr error
			if err := named[name].ConstBytes(func(data []byte) { _, writeErr = w.Write(data) }); err != nil {
				return err
			}
			if writeErr != nil {
				return writeErr
			}
		}
		return nil
	})
}

// ReadSafetensors reads every tensor and the metadata of the file at path. A file that is truncated, inconsistent or of another format
// is an error naming path.
func ReadSafetensors(path string) (named map[string]*tensors.Tensor, metadata map[string]string, err error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	named, metadata, err = parseSafetensors(content)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return named, metadata, nil
}

func parseSafetensors(content []byte) (map[string]*tensors.Tensor, map[string]string, error) {
	entries, metadata, data, err := parseHeader(content)
	if err != nil {
		return nil, nil, err
	}
	named := make(map[string]*tensors.Tensor, len(entries))
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		tensor, err := entries[name].read(data)
		if err != nil {
			return nil, nil, fmt.Errorf("tensor %q: %w", name, err)
		}
		named[name] = tensor
	}
	return named, metadata, nil
}

// parseHeader returns what the header says of each tensor, the metadata, and the part of content that holds the tensors.
func parseHeader(content []byte) (entries map[string]entry, metadata map[string]string, data []byte, err error) {
	if len(content) < 8 {
		return nil, nil, nil, fmt.Errorf("not a safetensors file: %d bytes", len(content))
	}
	length := binary.LittleEndian.Uint64(content)
	if length > maxHeader || length > uint64(len(content)-8) {
		return nil, nil, nil, fmt.Errorf("not a safetensors file, or truncated: header of %d bytes in a file of %d", length, len(content))
	}
	var header map[string]json.RawMessage
	if err := json.Unmarshal(content[8:8+length], &header); err != nil {
		return nil, nil, nil, fmt.Errorf("header: %w", err)
	}
	data = content[8+length:]
	if raw, ok := header[metadataKey]; ok {
		if err := json.Unmarshal(raw, &metadata); err != nil {
			return nil, nil, nil, fmt.Errorf("metadata: %w", err)
		}
		delete(header, metadataKey)
	}
	entries = make(map[string]entry, len(header))
	for _, name := range slices.Sorted(maps.Keys(header)) {
		var e entry
		if err := json.Unmarshal(header[name], &e); err != nil {
			return nil, nil, nil, fmt.Errorf("tensor %q: %w", name, err)
		}
		entries[name] = e
	}
	return entries, metadata, data, nil
}

// read makes the tensor that e describes from the file's data part.
func (e entry) read(data []byte) (*tensors.Tensor, error) {
	dtype := dtypes.InvalidDType
	for candidate, name := range dtypeNames {
		if name == e.DType {
			dtype = candidate
		}
	}
	if dtype == dtypes.InvalidDType {
		return nil, fmt.Errorf("unknown type %q", e.DType)
	}
	size := int64(dtype.Size())
	for _, dim := range e.Shape {
		if dim < 0 || (dim > 0 && size > math.MaxInt64/int64(dim)) {
			return nil, fmt.Errorf("impossible shape %v", e.Shape)
		}
		size *= int64(dim)
	}
	begin, end := e.Offsets[0], e.Offsets[1]
	if begin < 0 || end < begin || end > int64(len(data)) || end-begin != size {
		return nil, fmt.Errorf("bytes %d to %d of %d do not hold shape %v of %s", begin, end, len(data), e.Shape, e.DType)
	}
	if size == 0 {
		return nil, fmt.Errorf("empty shape %v", e.Shape)
	}
	tensor := tensors.FromShape(shapes.Make(dtype, e.Shape...))
	if err := tensor.MutableBytes(func(bytes []byte) { copy(bytes, data[begin:end]) }); err != nil {
		return nil, err
	}
	return tensor, nil
}
