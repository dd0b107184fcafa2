package safetensors

import (
	"fmt"
	"io"
	"strings"

	"github.com/semcon/semcon/internal/atomicfile"
)

// RawTensor is a tensor of float32 values that is written without being held in memory.
type RawTensor struct {
	Shape []int
	Write func(w io.Writer) error // Writes the values, little-endian and row-major, the same ones in each call.
}

// WriteRaw is [Write] for such tensors.
func WriteRaw(path string, named map[string]RawTensor, metadata map[string]string) error {
	contents := make(map[string]payload, len(named))
	for name, tensor := range named {
		size := int64(4)
		for _, dim := range tensor.Shape {
			size *= int64(dim)
		}
		contents[name] = payload{"F32", tensor.Shape, size, tensor.Write}
	}
	return write(path, contents, metadata)
}

// WriteNPY writes a tensor as a NumPy file. The write is atomic.
func WriteNPY(path string, values RawTensor) error {
	sizes := make([]string, len(values.Shape))
	for i, dim := range values.Shape {
		sizes[i] = fmt.Sprint(dim)
	}
	header := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }", strings.Join(sizes, ", "))
	header += strings.Repeat(" ", 63-(10+len(header))%64) + "\n" // The format aligns its data to 64 bytes.
	return atomicfile.Write(path, func(w io.Writer) error {
		if _, err := w.Write(append([]byte("\x93NUMPY\x01\x00"), byte(len(header)), byte(len(header)>>8))); err != nil {
			return err
		}
		if _, err := io.WriteString(w, header); err != nil {
			return err
		}
		return values.Write(w)
	})
}
