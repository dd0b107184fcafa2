package study

import (
	"errors"
	"fmt"

	"github.com/gofrs/flock"
)

// errLocked reports that another process holds the lock.
var errLocked = errors.New("another process holds the lock")

// lock takes the lock file at path. The operating system releases it when the process ends, even if it is killed.
func lock(path string) (unlock func(), err error) {
	file := flock.New(path)
	taken, err := file.TryLock()
	switch {
	case err != nil:
		return nil, fmt.Errorf("locking %s: %w", path, err)
	case !taken:
		return nil, errLocked
	}
	return func() { file.Close() }, nil
}
