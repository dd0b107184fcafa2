package evaluation

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

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
func (s *FeatureStore) resume() error {
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
		if err := file.Truncate(ends[i]); err != nil {
			return err
		}
		if _, err := file.Seek(ends[i], io.SeekStart); err != nil {
			return err
		}
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
func (s *FeatureStore) Add(b StoredBatch, values ...[]byte) error {
	for _, texts := range []*[]string{&b.Images, &b.Skipped} {
		*texts = slices.Clone(*texts)
		for i, text := range *texts {
			(*texts)[i] = strings.ToValidUTF8(text, "\ufffd") // JSON gives nothing else back.
		}
	}
	b.Sizes, b.Sums = nil, nil
	for i, file := range s.Tensors {
		if _, err := file.Write(values[i]); err != nil {
			return err
		}
		if err := file.Sync(); err != nil {
			return err
		}
		size, err := file.Seek(0, io.SeekCurrent)
		if err != nil {
			return err
		}
		b.Sizes, b.Sums = append(b.Sizes, size), append(b.Sums, crc32.Checksum(values[i], castagnoli))
	}
	b.Line = b.sum()
	line, err := json.Marshal(b)
	if err != nil {
		return err
	}
	if _, err := s.journal.Write(append(line, '\n')); err != nil {
		return err
	}
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

// FeatureCache is a folder of [FeatureFile]s with a limit on their total size.
type FeatureCache struct {
	Dir     string
	Limit   float64 // In bytes.
	Waiting func()  // Called once if another process makes the file. Optional.
}

// FeatureEntries says what a file of features holds and how it is computed.
type FeatureEntries struct {
	Count, Features, Labels int                                      // The number of entries, and how many features and labels each has.
	Compute                 func(from int) iter.Seq2[Patches, error] // Yields the entries from a number on.
}

func (e FeatureEntries) size() int64 { return int64(e.Count) * int64(4*e.Features+e.Labels) }

// FeatureFile keeps features on disk, so that they are computed once and read many times with little memory. It holds [Patches] of one size, one
// after the other: float32 features, then labels, little-endian.
type FeatureFile struct {
	file    *os.File
	entries FeatureEntries
}

// Open opens the file with the given name. If it does not exist and fits in the limit, one process computes it, in a [FeatureStore] beside it, and others wait.
// If it does not fit, file is nil and wanted is the total size that the cache would need. The error is from the computation or ctx, or names the file.
func (c FeatureCache) Open(ctx context.Context, name string, entries FeatureEntries) (_ *FeatureFile, wanted float64, err error) {
	making.Lock()
	defer making.Unlock()
	path := filepath.Join(c.Dir, name+".features")
	if _, err := os.Stat(path); err != nil {
		taken := entries.size()
		files, err := filepath.Glob(filepath.Join(c.Dir, "*.features"))
		if err != nil {
			return nil, 0, err
		}
		for _, other := range files {
			if info, err := os.Stat(other); err == nil {
				taken += info.Size()
			}
		}
		if wanted = float64(taken); wanted > c.Limit {
			return nil, wanted, nil
		}
		if err := c.make(ctx, path, entries); err != nil {
			return nil, 0, err
		}
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err == nil && info.Size() != entries.size() {
		err = fmt.Errorf("%s: has %d bytes, want %d of features (remove the file to compute them again)", path, info.Size(), entries.size())
	}
	if err != nil {
		file.Close()
		return nil, 0, err
	}
	return &FeatureFile{file, entries}, wanted, nil
}

// making is held while a file is made, so that two workers do not both find room for theirs.
var making sync.Mutex

func (c FeatureCache) make(ctx context.Context, path string, entries FeatureEntries) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	unlock, _, err := filelock.Wait(ctx, path+".lock", c.Waiting)
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := os.Stat(path); err == nil {
		return nil // The process that had the lock has made it.
	}
	left, _ := filepath.Glob(filepath.Join(c.Dir, ".writing-"+filepath.Base(path)+".*")) // What a killed run of an earlier version has left.
	partial, _ := filepath.Glob(filepath.Join(c.Dir, "*.features.partial"))
	for _, other := range partial { // What a run of other settings has left, unless it runs or may be started again.
		files, _ := filepath.Glob(filepath.Join(other, "*"))
		if other == path+".partial" || slices.ContainsFunc(append(files, other), changedToday) {
			continue
		}
		if unlock, free, err := filelock.Try(filepath.Join(other, "lock")); err == nil && free {
			defer unlock() // Whoever opens the folder waits for its removal.
			left = append(left, other)
		}
	}
	for _, file := range left {
		if err := os.RemoveAll(file); err != nil {
			return err
		}
	}
	s, err := OpenFeatureStore(path+".partial", [3]int{entries.Count, entries.Features, entries.Labels}, "entries")
	if err != nil {
		return err
	}
	defer s.Close()
	var batch []byte
	done := s.Done()
	for patches, err := range entries.Compute(done) {
		if err != nil {
			return err
		}
		if len(patches.Features) != entries.Features || len(patches.Labels) != entries.Labels {
			return fmt.Errorf("%s: %d features with %d labels, want %d with %d", path, len(patches.Features), len(patches.Labels), entries.Features, entries.Labels)
		}
		if batch, err = binary.Append(batch, binary.LittleEndian, patches.Features); err != nil {
			return err
		}
		batch = append(batch, patches.Labels...)
		if done++; done%EncodeBatch == 0 || done == entries.Count {
			if err := s.Add(StoredBatch{Done: done}, batch); err != nil {
				return err
			}
			batch = batch[:0]
		}
	}
	if err := os.Rename(s.Tensors[0].Name(), path); err != nil {
		return err
	}
	return s.Remove()
}

// changedToday reports whether a file has changed in the last 24 hours.
func changedToday(file string) bool {
	info, err := os.Stat(file)
	return err == nil && time.Since(info.ModTime()) < 24*time.Hour
}

// Close closes the file.
func (f *FeatureFile) Close() error { return f.file.Close() }

// All yields the entries at the given places in turn.
func (f *FeatureFile) All(places []int) iter.Seq2[Patches, error] {
	return func(yield func(Patches, error) bool) {
		for _, i := range places {
			row := make([]byte, 4*f.entries.Features+f.entries.Labels)
			patches := Patches{Features: make([]float32, f.entries.Features), Labels: row[4*f.entries.Features:]}
			_, err := f.file.ReadAt(row, int64(i)*int64(len(row)))
			if err == nil {
				_, err = binary.Decode(row, binary.LittleEndian, patches.Features)
			}
			if err != nil {
				err = fmt.Errorf("%s: %w", f.file.Name(), err)
			}
			if !yield(patches, err) || err != nil {
				return
			}
		}
	}
}
