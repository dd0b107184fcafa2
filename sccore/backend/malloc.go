//go:build cgo && linux

package backend

/*
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

// XLA's CPU plugin allocates the temporary buffers of a step anew each time it runs. By default the C library gives large ones back to
// the system at once, so that every page of them is cleared and faulted in again at every step, which costs more than the convolutions
// of a small network. Here freed memory stays with the process, and the heap is of huge pages where the system has them, which a
// large network's passes over memory gain 10 to 20 % from. The heap is address space up to half of the machine's memory; what is never
// used is never taken.
static void keep_freed_memory(void) {
#ifdef __GLIBC__
	mallopt(M_MMAP_MAX, 0);
	mallopt(M_TRIM_THRESHOLD, -1);
	mallopt(M_TOP_PAD, 64 << 20);
	mallopt(M_ARENA_MAX, 1);
#ifdef MADV_HUGEPAGE
	const size_t huge = 2 << 20;
	size_t size = (size_t)sysconf(_SC_PHYS_PAGES) / 2 * (size_t)sysconf(_SC_PAGESIZE);
	char *heap = malloc(size);
	if (heap != NULL && size > 2 * huge) {
		madvise((void *)(((uintptr_t)heap + huge) & ~(huge - 1)), size - 2 * huge, MADV_HUGEPAGE);
	}
	free(heap);
#endif
#endif
}
*/
import "C"

func init() { C.keep_freed_memory() }
