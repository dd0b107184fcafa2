package evaluation

import (
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"sync"

	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/internal/filelock"
)

// FeatureCache is a folder of [FeatureFile]s with a limit on their total size.
type FeatureCache struct {
	Dir   string
	Limit float64 // In bytes.
}

// cacheMutex prevents two workers of a process from making the same file.
var cacheMutex sync.Mutex

// Open opens the file with the given name. If it does not exist and fits in the limit, Open makes it as [OpenFeatureFile] does. If it does not fit, file
// is nil and wanted is the total size that the cache would need.
func (c FeatureCache) Open(name string, count, features, labels int, compute iter.Seq2[Patches, error]) (file *FeatureFile, wanted float64, err error) {
	cacheMutex.Lock()
	defer cacheMutex.Unlock()
	path := filepath.Join(c.Dir, name+".features")
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		taken := FeatureFileSize(count, features, labels)
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
		unlock, err := c.sweep(path)
		if err != nil {
			return nil, 0, err
		}
		defer unlock()
	}
	file, err = OpenFeatureFile(path, count, features, labels, compute)
	return file, wanted, err
}

// sweep removes what killed processes have left of a file: it can be gigabytes. It returns what the caller calls after it has made the file. If another process
// is making the file, nothing is removed, and both make it.
func (c FeatureCache) sweep(path string) (unlock func(), err error) {
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return nil, err
	}
	unlock, alone, err := filelock.Try(path + ".lock")
	if err == nil && alone {
		err = atomicfile.SweepFile(path)
	}
	return unlock, err
}
