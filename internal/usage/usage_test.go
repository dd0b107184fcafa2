package usage

import (
	"os"
	"testing"
	"time"
)

func TestCPUCountsWorkAndNotSleep(t *testing.T) {
	began := CPU()
	time.Sleep(100 * time.Millisecond)
	slept := CPU() - began
	x, until := 1.0, time.Now().Add(200*time.Millisecond)
	for time.Now().Before(until) {
		x *= 1.0000001
	}
	if worked := CPU() - began - slept; worked < slept || x == 0 {
		t.Errorf("%v of CPU time asleep, %v working", slept, worked)
	}
}

func TestPeakMemorySeesWhatWasFreed(t *testing.T) {
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil || status("VmHWM") == 0 {
		t.Skip("this system does not report memory:", err)
	}
	var kept []byte
	peak := PeakMemory(func() {
		kept = make([]byte, 64<<20)
		for i := 0; i < len(kept); i += 1024 {
			kept[i] = 1
		}
		kept = nil
	})
	if peak < 32<<20 || peak > 512<<20 {
		t.Errorf("64 MiB written, a peak of %d bytes", peak)
	}
}
