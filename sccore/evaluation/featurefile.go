package evaluation

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"os"

	"github.com/semcon/semcon/internal/atomicfile"
)

// FeatureFile keeps features on disk, so that they are computed once and read many times with little memory. It holds [Patches] of one size, one
// after the other: float32 features, then labels, little-endian.
type FeatureFile struct {
	file             *os.File
	features, labels int // The numbers of features and labels in each entry.
}

// FeatureFileSize is the size in bytes of a file of count entries with so many features and labels each.
func FeatureFileSize(count, features, labels int) int64 {
	return int64(count) * int64(4*features+labels)
}

// OpenFeatureFile opens the file at path. If the file does not exist, it is written from what compute yields, count entries of that many features and
// labels, completely or not at all. The error is compute's, or names the file.
func OpenFeatureFile(path string, count, features, labels int, compute iter.Seq2[Patches, error]) (*FeatureFile, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if err := atomicfile.Write(path, func(w io.Writer) error { return fillFeatures(w, features, labels, compute) }); err != nil {
			return nil, err
		}
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if want := FeatureFileSize(count, features, labels); err == nil && info.Size() != want {
		err = fmt.Errorf("%s: has %d bytes, want %d of features (remove the file to compute them again)", path, info.Size(), want)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return &FeatureFile{file, features, labels}, nil
}

func fillFeatures(w io.Writer, features, labels int, compute iter.Seq2[Patches, error]) error {
	var row []byte
	for patches, err := range compute {
		if err != nil {
			return err
		}
		if len(patches.Features) != features || len(patches.Labels) != labels {
			return fmt.Errorf("%d features with %d labels, want %d with %d", len(patches.Features), len(patches.Labels), features, labels)
		}
		row = row[:0]
		for _, value := range patches.Features {
			row = binary.LittleEndian.AppendUint32(row, math.Float32bits(value))
		}
		if _, err := w.Write(append(row, patches.Labels...)); err != nil {
			return err
		}
	}
	return nil
}

// Close closes the file.
func (f *FeatureFile) Close() error { return f.file.Close() }

// Read returns entry i.
func (f *FeatureFile) Read(i int) (Patches, error) {
	row := make([]byte, 4*f.features+f.labels)
	if _, err := f.file.ReadAt(row, int64(i)*int64(len(row))); err != nil {
		return Patches{}, fmt.Errorf("%s: %w", f.file.Name(), err)
	}
	patches := Patches{Features: make([]float32, f.features), Labels: row[4*f.features:]}
	for at := range patches.Features {
		patches.Features[at] = math.Float32frombits(binary.LittleEndian.Uint32(row[4*at:]))
	}
	return patches, nil
}

// All yields the entries at the given places in turn.
func (f *FeatureFile) All(places []int) iter.Seq2[Patches, error] {
	return func(yield func(Patches, error) bool) {
		for _, i := range places {
			if patches, err := f.Read(i); !yield(patches, err) || err != nil {
				return
			}
		}
	}
}
