//go:build cgo && linux

package backend

/*
#include <malloc.h>

// XLA's CPU plugin allocates the temporary buffers of a step anew each time it runs. By default the C library gives large ones back to
// the system at once, so that every page of them is cleared and faulted in again at every step, which costs more than the convolutions
// of a small network. Here freed memory stays with the process.
static void keep_freed_memory(void) {
#ifdef __GLIBC__
	mallopt(M_MMAP_MAX, 0);
	mallopt(M_TRIM_THRESHOLD, -1);
	mallopt(M_TOP_PAD, 64 << 20);
	mallopt(M_ARENA_MAX, 1);
#endif
}
*/
import "C"

func init() { C.keep_freed_memory() }
