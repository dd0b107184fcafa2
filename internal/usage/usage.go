// Package usage measures the CPU time and the memory that a piece of work costs this process.
package usage

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

// CPU returns the CPU time that the process has used so far, on all threads.
func CPU() time.Duration {
	var r syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &r) // It fails for wrong arguments alone.
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// PeakMemory runs work and returns by how many bytes the process's memory grew at its peak, or 0 if the system does not say. It does not count
// memory that the process held before and did not use.
func PeakMemory(work func()) int64 {
	before := status("VmRSS")
	return max(0, PeakResident(work)-before)
}

// PeakResident runs work and returns the most memory that the process held meanwhile, in bytes, or 0 if the system does not say.
func PeakResident(work func()) int64 {
	reset := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) == nil // Resets the peak.
	work()
	if !reset {
		return 0
	}
	return status("VmHWM")
}

// status reads a size in bytes from /proc/self/status. It returns 0 if there is none.
func status(field string) int64 {
	kilobytes := int64(0)
	content, _ := os.ReadFile("/proc/self/status")
	_, rest, _ := strings.Cut(string(content), "\n"+field+":")
	fmt.Sscan(rest, &kilobytes) // Nothing without the field.
	return kilobytes << 10
}
