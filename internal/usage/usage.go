// Package usage measures what a piece of work costs this process: CPU time and memory.
package usage

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// CPU is the CPU time that the process has used so far, on all its threads.
func CPU() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic(err) // The arguments are right.
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// PeakMemory runs work and returns by how many bytes the process's memory grew meanwhile, at its peak; 0 where the system does not tell.
// Memory that the process had and did not use is not counted.
func PeakMemory(work func()) int64 {
	before := status("VmRSS")
	reset := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) == nil // The peak begins anew.
	work()
	if !reset {
		return 0
	}
	return max(0, status("VmHWM")-before)
}

// status reads a size in bytes from /proc/self/status; 0 where there is none.
func status(field string) int64 {
	content, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(content)) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			kilobytes, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kilobytes << 10
		}
	}
	return 0
}
