package filelock

import (
	"os"
	"path/filepath"
	"testing"
)

// TestALockThatItsHolderRemoves: whoever waits for a removed file does not hold it beside the one who makes it anew.
func TestALockThatItsHolderRemoves(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, taken, err := Try(path)
	if err != nil || !taken {
		t.Fatal(taken, err)
	}
	second := make(chan func(), 1)
	waits := make(chan bool, 1)
	go func() {
		unlock, err := Wait(t.Context(), path, func() { waits <- true })
		if err != nil {
			t.Error(err)
		}
		second <- unlock
	}()
	<-waits
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	unlock()
	unlock = <-second
	if _, taken, err := Try(path); taken || err != nil {
		t.Errorf("a third takes the lock beside the second: %v, %v", taken, err)
	}
	unlock()
	if unlock, taken, err = Try(path); err != nil || !taken {
		t.Fatal(taken, err)
	}
	unlock()
}
