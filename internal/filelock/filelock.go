package filelock

import (
	"context"
	"fmt"
	"time"

	"github.com/gofrs/flock"
)

// Try takes a lock that no other process holds. taken is false if another one does.
func Try(path string) (unlock func(), taken bool, err error) {
	file := flock.New(path)
	if taken, err = file.TryLock(); err != nil {
		return nil, false, fmt.Errorf("locking %s: %w", path, err)
	}
	return func() { file.Close() }, taken, nil
}

// Wait takes a lock. If another process holds it, Wait calls waiting once, unless it is nil, and then waits until the lock is free or ctx ends, whose
// error it returns. waited reports whether it had to.
func Wait(ctx context.Context, path string, waiting func()) (unlock func(), waited bool, err error) {
	unlock, taken, err := Try(path)
	if err != nil || taken {
		return unlock, false, err
	}
	if waiting != nil {
		waiting()
	}
	file := flock.New(path)
	if _, err := file.TryLockContext(ctx, 100*time.Millisecond); ctx.Err() != nil {
		return nil, true, ctx.Err()
	} else if err != nil {
		return nil, true, fmt.Errorf("locking %s: %w", path, err)
	}
	return func() { file.Close() }, true, nil
}
