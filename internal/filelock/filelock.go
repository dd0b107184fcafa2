// Package filelock keeps processes apart by lock files. The operating system releases a lock when its process ends, even if it is killed.
//
// In goes the path of a lock file, which is created. Out comes a function that releases the lock. Package study locks the folder of a running cell,
// fetch a download, and the set-up of the notebooks the checkout.
package filelock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/gofrs/flock"
)

// Try takes a lock that no other process holds. taken is false if another one does. Its holder may remove the file.
func Try(path string) (unlock func(), taken bool, err error) {
	file := flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o666))          // NFS locks only what is open for writing.
	if taken, err = file.TryLock(); errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) { // The file of another user, or of a disk that cannot be written.
		file = flock.New(path, flock.SetPermissions(0o666))
		taken, err = file.TryLock()
	}
	if err != nil {
		return nil, false, fmt.Errorf("locking %s: %w", path, err)
	}
	locked, _ := file.Stat()
	present, _ := os.Stat(path)
	if taken && !os.SameFile(locked, present) { // The last holder removed it between the opening and the locking.
		file.Close()
		return Try(path)
	}
	return func() { file.Close() }, taken, nil
}

// Wait takes a lock. If another process holds it, Wait calls waiting once, unless it is nil, and then waits until the lock is free or ctx ends, whose
// error it returns.
func Wait(ctx context.Context, path string, waiting func()) (unlock func(), err error) {
	for {
		unlock, taken, err := Try(path)
		if err != nil || taken {
			return unlock, err
		}
		if waiting != nil {
			waiting()
			waiting = nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}
