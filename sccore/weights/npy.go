package weights

import (
	"encoding/binary"
	"fmt"
	"io"
	"strings"

	"github.com/semcon/semcon/internal/atomicfile"
)

// WriteNPY writes rows of equal length to a NumPy file of float32, [rows, columns]. The write is atomic.
func WriteNPY(path string, rows [][]float32) error {
	columns := 0
	if len(rows) > 0 {
		columns = len(rows[0])
	}
	header := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }", len(rows), columns)
	header += strings.Repeat(" ", 63-(10+len(header))%64) + "\n" // The format aligns its data to 64 bytes.
	return atomicfile.Write(path, func(w io.Writer) error {
		if _, err := w.Write(append([]byte("\x93NUMPY\x01\x00"), byte(len(header)), byte(len(header)>>8))); err != nil {
			return err
		}
		if _, err := io.WriteString(w, header); err != nil {
			return err
		}
		for i, row := range rows {
			if len(row) != columns {
				return fmt.Errorf("row %d has %d columns, want %d", i, len(row), columns)
			}
			if err := binary.Write(w, binary.LittleEndian, row); err != nil {
				return err
			}
		}
		return nil
	})
}
