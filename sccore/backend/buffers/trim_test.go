//go:build cgo && linux

package buffers

import (
	"runtime"
	"testing"
	"unsafe"

	"github.com/semcon/semcon/internal/usage"
	"github.com/semcon/semcon/sccore/backend"
)

// TestTrimReturnsWhatIsFree frees blocks as a compiler does: many small ones, with one in use behind them.
func TestTrimReturnsWhatIsFree(t *testing.T) {
	// The C library trims the end of one thread's memory only if that is in use, and a goroutine that changes its thread would leave two ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const size, count = 32 << 10, 8 << 10 // 256 MiB.
	resident := func() int64 { return usage.PeakResident(func() {}) }
	blocks := make([]unsafe.Pointer, count)
	for i := range blocks {
		blocks[i] = alignedAlloc(64, size)
		clear(unsafe.Slice((*byte)(blocks[i]), size))
	}
	for _, block := range blocks[:count-1] {
		free(block)
	}
	defer free(blocks[count-1])
	held := resident()
	if backend.Trim(); held == 0 {
		t.Skip("the system does not say how much memory is in use")
	}
	if after := resident(); held-after < size*count/2 {
		t.Errorf("%d MB before, %d MB after trimming, want at least 128 MB less", held>>20, after>>20)
	}
}
