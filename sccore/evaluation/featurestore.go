package evaluation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/internal/filelock"
)

// FeatureStore keeps features in a folder while they are computed, so that work that is killed goes on where it stopped and leaves the same bytes. Each batch is
// a file of its own: a checksum and a description, a line each, and the values of its tensors.
type FeatureStore struct {
	Batches []StoredBatch
	Renewed bool // The folder held features of other settings, which are gone.

	dir    string
	unlock func()
}

// StoredBatch describes a batch of a store.
type StoredBatch struct {
	Done    int      `json:"done"`              // Images that were read or skipped, from the first batch on.
	Images  []string `json:"images"`            // The names of those with features.
	Grid    [2]int   `json:"grid"`              // Rows and columns of their maps.
	Skipped []string `json:"skipped,omitempty"` // Why others have none.
	Sizes   []int    `json:"sizes"`             // Of the tensors in bytes. [FeatureStore.Add] sets them.
}

const batchSuffix = ".batch"

func (s *FeatureStore) file(batch int) string {
	return filepath.Join(s.dir, fmt.Sprintf("%09d%s", batch, batchSuffix))
}

// OpenFeatureStore opens the folder dir, or makes it, with what it holds of the same settings: the batches before the first one that is not as it was written. An
// error says if another process has it open.
func OpenFeatureStore(dir string, settings any) (s *FeatureStore, err error) {
	defer try.Handle(&err)
	wanted := try.E1(json.MarshalIndent(settings, "", "  "))
	try.E(os.MkdirAll(dir, 0o777))
	unlock, taken := try.E2(filelock.Try(filepath.Join(dir, "lock")))
	if !taken {
		return nil, fmt.Errorf("%s: another process is writing it", strings.TrimSuffix(dir, filepath.Ext(dir)))
	}
	s = &FeatureStore{dir: dir, unlock: unlock}
	defer func() {
		if err != nil {
			unlock()
		}
	}()
	settingsFile := filepath.Join(dir, "settings.json")
	found, _ := os.ReadFile(settingsFile) // One that cannot be read is written anew.
	if !bytes.Equal(found, wanted) {
		s.Renewed = found != nil
		for _, file := range try.E1(os.ReadDir(dir)) {
			if strings.HasSuffix(file.Name(), batchSuffix) {
				try.E(os.Remove(filepath.Join(dir, file.Name())))
			}
		}
		return s, os.WriteFile(settingsFile, wanted, 0o666)
	}
	for {
		content, _ := os.ReadFile(s.file(len(s.Batches))) // One that cannot be read is not whole.
		sum, content, _ := bytes.Cut(content, []byte("\n"))
		line, values, _ := bytes.Cut(content, []byte("\n"))
		var b StoredBatch
		switch {
		case string(sum) != checksum(content) || json.Unmarshal(line, &b) != nil || b.Done != s.Done()+len(b.Images)+len(b.Skipped),
			lo.Sum(b.Sizes) != len(values) || lo.SomeBy(b.Sizes, func(size int) bool { return size < 0 || size > len(values) }):
			return s, nil
		}
		s.Batches = append(s.Batches, b)
	}
}

func checksum(content []byte) string { return fmt.Sprintf("%08x", crc32.ChecksumIEEE(content)) }

// Done is the number of images that were read or skipped.
func (s *FeatureStore) Done() int {
	last, _ := lo.Last(s.Batches)
	return last.Done
}

// Add appends a batch: for each tensor the values of its images. Bytes of names that are not UTF-8 become U+FFFD.
func (s *FeatureStore) Add(b StoredBatch, values ...[]byte) (err error) {
	defer try.Handle(&err)
	b.Sizes = lo.Map(values, func(tensor []byte, _ int) int { return len(tensor) })
	line := try.E1(json.Marshal(b))
	content := bytes.Join([][]byte{line, bytes.Join(values, nil)}, []byte("\n"))
	try.E(atomicfile.WriteBytes(s.file(len(s.Batches)), append([]byte(checksum(content)+"\n"), content...)))
	b = StoredBatch{}
	try.E(json.Unmarshal(line, &b)) // As it will be read.
	s.Batches = append(s.Batches, b)
	return nil
}

// Copy writes the values of a tensor of a batch: of the image at a place among the batch's, or of all its images if the place is negative.
func (s *FeatureStore) Copy(w io.Writer, batch, tensor, place int) (err error) {
	defer try.Handle(&err)
	b := s.Batches[batch]
	file := try.E1(os.Open(s.file(batch)))
	defer file.Close()
	begin, size := try.E1(file.Stat()).Size()-int64(lo.Sum(b.Sizes[tensor:])), b.Sizes[tensor]
	if place >= 0 {
		size /= len(b.Images)
		begin += int64(place * size)
	}
	n, err := io.Copy(w, io.NewSectionReader(file, begin, int64(size)))
	if err == nil && n != int64(size) {
		err = fmt.Errorf("%s: %d bytes of a tensor of %d: %w", s.file(batch), n, size, io.ErrUnexpectedEOF)
	}
	return err
}

// Close ends the work on the folder, which stays.
func (s *FeatureStore) Close() { s.unlock() }

// Remove removes the folder.
func (s *FeatureStore) Remove() error { return os.RemoveAll(s.dir) }
