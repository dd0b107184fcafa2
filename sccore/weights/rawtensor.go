package weights

import (
	"fmt"
	"io"
)

// RawTensor is a tensor of float32 values that lie in a file, little-endian and row-major, from Offset on. It is written without being held in memory.
type RawTensor struct {
	Shape  []int
	File   io.ReaderAt
	Offset int64
}

// WriteRawSafetensors is [WriteSafetensors] for tensors in files.
func WriteRawSafetensors(path string, named map[string]RawTensor, metadata map[string]string) error {
	contents := make(map[string]payload, len(named))
	for name, tensor := range named {
		contents[name] = payload{"F32", tensor.Shape, tensor.size(), tensor.write}
	}
	return writeSafetensors(path, contents, metadata)
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
