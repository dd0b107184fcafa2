package backend

import (
	"os"
	"strconv"
	"strings"
)

// Memory returns how many bytes of memory the engine may have: what the machine has, or less where a control group says so. It is 0 where that is not known,
// as for a GPU, which refuses by itself what does not fit.
func Memory() (bytes int64) {
	if strings.Contains(Config(), "cuda") {
		return 0
	}
	for _, line := range strings.Split(read("/proc/meminfo"), "\n") {
		if kilobytes, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(kilobytes, "kB")), 10, 64)
			bytes = n << 10
		}
	}
	if limit, err := strconv.ParseInt(strings.TrimSpace(read("/sys/fs/cgroup/memory.max")), 10, 64); err == nil && limit < bytes {
		return limit
	}
	return bytes
}

// read returns the content of a file of the system, or nothing.
func read(path string) string {
	content, _ := os.ReadFile(path)
	return string(content)
}
