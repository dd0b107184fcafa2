package safetensors

import (
	"fmt"
	"io"
	"strings"

	"github.com/semcon/semcon/internal/atomicfile"
)

// RawTensor is a tensor of float32 values that lie in a file, little-endian and row-major, from Offset on. It is written without being held in memory.
type RawTensor struct {
	Shape  []int
	File   io.ReaderAt
	Offset int64
}

// WriteRaw is [Write] for tensors in files.
func WriteRaw(path string, named map[string]RawTensor, metadata map[string]string) error {
	contents := make(map[string]payload, len(named))
	for name, tensor := range named {
		contents[name] = payload{"F32", tensor.Shape, tensor.size(), tensor.write}
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
		return values.write(w)
	})
}

// size is in bytes.
func (t RawTensor) size() int64 {
	size := int64(4)
	for _, dim := range t.Shape {
		size *= int64(dim)
	}
	return size
}

func (t RawTensor) write(w io.Writer) error {
	n, err := io.Copy(w, io.NewSectionReader(t.File, t.Offset, t.size()))
	if err == nil && n != t.size() {
		err = fmt.Errorf("%d bytes of a tensor of %d: %w", n, t.size(), io.ErrUnexpectedEOF)
	}
	return err
}
