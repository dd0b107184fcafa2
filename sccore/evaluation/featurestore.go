package evaluation

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dsnet/try"
	"github.com/semcon/semcon/internal/filelock"
)

// FeatureStore keeps features in a folder while they are computed, so that work that is killed goes on where it stopped and leaves the same bytes. Each tensor
// is a file that grows by whole batches. The journal has a line for each batch, which is written when the batch is on disk.
type FeatureStore struct {
	Batches []StoredBatch
	Tensors []*os.File // In the order of their names.
	Renewed bool       // The folder held features of other settings, which are gone.

	dir     string
	journal *os.File
	unlock  func()
}

// StoredBatch is a batch in the journal of a store.
type StoredBatch struct {
	Done    int      `json:"done"`              // Images that were read or skipped, from the first batch on.
	Images  []string `json:"images"`            // The names of those with features.
	Grid    [2]int   `json:"grid"`              // Rows and columns of their maps.
	Skipped []string `json:"skipped,omitempty"` // Why others have none.
	Sizes   []int64  `json:"sizes"`             // Of the files of tensors in bytes. [FeatureStore.Add] sets them and what follows.
	Sums    []uint32 `json:"sums"`              // CRC-32C of the batch in each file.
	Line    uint32   `json:"line"`              // CRC-32C of this line with 0 in this place.
}

// sum is the checksum of the batch's line in the journal.
func (b StoredBatch) sum() uint32 {
	b.Line = 0
	line, _ := json.Marshal(b) // Names and numbers always encode.
	return crc32.Checksum(line, castagnoli)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const journalFile = "journal.jsonl"

// OpenFeatureStore opens the folder dir, or makes it, with what it holds of the same settings. An error says if another process has it open.
func OpenFeatureStore(dir string, settings any, tensors ...string) (s *FeatureStore, err error) {
	wanted, err := json.MarshalIndent(settings, "", "  ")
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	unlock, taken, err := filelock.Try(filepath.Join(dir, "lock"))
	if err != nil {
		return nil, err
	}
	if !taken {
		return nil, fmt.Errorf("%s: another process is writing it", strings.TrimSuffix(dir, filepath.Ext(dir)))
	}
	s = &FeatureStore{dir: dir, unlock: unlock}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	settingsFile, flags := filepath.Join(dir, "settings.json"), os.O_RDWR|os.O_CREATE
	found, _ := os.ReadFile(settingsFile) // One that cannot be read is written anew.
	same := bytes.Equal(found, wanted)
	if s.Renewed = !same && found != nil; !same {
		flags |= os.O_TRUNC
	}
	if s.journal, err = os.OpenFile(filepath.Join(dir, journalFile), flags, 0o666); err != nil {
		return nil, err
	}
	for _, name := range tensors {
		file, err := os.OpenFile(filepath.Join(dir, name), flags, 0o666)
		if err != nil {
			return nil, err
		}
		s.Tensors = append(s.Tensors, file)
	}
	if same {
		return s, s.resume()
	}
	return s, os.WriteFile(settingsFile, wanted, 0o666)
}

// resume reads the journal up to the first batch that is not whole, in its line or in the files of tensors, and cuts off what follows.
func (s *FeatureStore) resume() (err error) {
	defer try.Handle(&err)
	lines := bufio.NewReader(s.journal)
	ends := make([]int64, len(s.Tensors)+1) // Of the tensors and the journal.
	for {
		line, err := lines.ReadBytes('\n')
		var b StoredBatch
		if err != nil || json.Unmarshal(line, &b) != nil || len(b.Sizes) != len(s.Tensors) || len(b.Sums) != len(s.Tensors) || b.Line != b.sum() {
			break
		}
		damaged := func(file *os.File) bool {
			i := slices.Index(s.Tensors, file)
			sum := crc32.New(castagnoli)
			_, err := io.CopyN(sum, io.NewSectionReader(file, ends[i], b.Sizes[i]-ends[i]), b.Sizes[i]-ends[i])
			return b.Sizes[i] < ends[i] || err != nil || sum.Sum32() != b.Sums[i]
		}
		if slices.ContainsFunc(s.Tensors, damaged) {
			break
		}
		s.Batches = append(s.Batches, b)
		ends = append(b.Sizes[:len(b.Sizes):len(b.Sizes)], ends[len(s.Tensors)]+int64(len(line)))
	}
	for i, file := range append(s.Tensors[:len(s.Tensors):len(s.Tensors)], s.journal) {
		try.E(file.Truncate(ends[i]))
		try.E1(file.Seek(ends[i], io.SeekStart))
	}
	return nil
}

// Done is the number of images that were read or skipped.
func (s *FeatureStore) Done() int {
	if len(s.Batches) == 0 {
		return 0
	}
	return s.Batches[len(s.Batches)-1].Done
}

// Add appends a batch: for each tensor the values of its images. Bytes of names that are not UTF-8 become U+FFFD.
func (s *FeatureStore) Add(b StoredBatch, values ...[]byte) (err error) {
	defer try.Handle(&err)
	for _, texts := range []*[]string{&b.Images, &b.Skipped} {
		*texts = slices.Clone(*texts)
		for i, text := range *texts {
			(*texts)[i] = strings.ToValidUTF8(text, "\ufffd") // JSON gives nothing else back.
		}
	}
	b.Sizes, b.Sums = nil, nil
	for i, file := range s.Tensors {
		try.E1(file.Write(values[i]))
		try.E(file.Sync())
		size := try.E1(file.Seek(0, io.SeekCurrent))
		b.Sizes, b.Sums = append(b.Sizes, size), append(b.Sums, crc32.Checksum(values[i], castagnoli))
	}
	b.Line = b.sum()
	line := try.E1(json.Marshal(b))
	try.E1(s.journal.Write(append(line, '\n')))
	s.Batches = append(s.Batches, b)
	return s.journal.Sync()
}

// Close ends the work on the folder, which stays.
func (s *FeatureStore) Close() {
	for _, file := range append(s.Tensors, s.journal) {
		file.Close() // Closing a nil file does nothing.
	}
	s.unlock()
}

// Remove removes the folder.
func (s *FeatureStore) Remove() error { return os.RemoveAll(s.dir) }
