package evaluation

import (
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"sync"
)

// FeatureCache is a folder of [FeatureFile]s, which together take no more than a limit of disk.
type FeatureCache struct {
	Dir   string
	Limit float64 // In bytes.
}

// making is held while files are looked for and made, so that no two workers of a process make the same.
var making sync.Mutex

// Open opens the file of a name, and makes it as [OpenFeatureFile] does, if it is not there and fits in the limit. If it does not, the file is nil, and
// wanted is what all files would take.
func (c FeatureCache) Open(name string, count, features, labels int, compute iter.Seq2[Patches, error]) (file *FeatureFile, wanted float64, err error) {
	making.Lock()
	defer making.Unlock()
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
	}
	file, err = OpenFeatureFile(path, count, features, labels, compute)
	return file, wanted, err
}
