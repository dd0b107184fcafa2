package weights

import (
	"fmt"
	"io"
	"strings"

	"github.com/semcon/semcon/internal/atomicfile"
)

// WriteNPY writes a part of a file of float32 values, little-endian and row-major, as a NumPy file. The write is atomic.
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
