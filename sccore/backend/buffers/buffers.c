//go:build cgo && linux

// XLA's CPU plugin allocates the large buffers of a step from the C library and frees them after the step. The library returns them to the
// system, or loses them to the arenas of other threads, so that each step clears and faults in its pages again. This takes a third of the
// time of a small network. Here, blocks of a mebibyte and more, which are the same in each step, come from a region of huge pages and stay
// there for the next step. The C library handles all smaller blocks.
//
// A program's own aligned_alloc, posix_memalign, realloc and free replace those of the C library in every library that it loads.

#include <stdlib.h>

#ifdef __GLIBC__

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

extern void *__libc_memalign(size_t alignment, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void __libc_free(void *block);

enum { unit = 64 << 10, smallest = 1 << 20, huge = 2 << 20, classes = 256 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *region;          // Address space as large as the machine's memory.
static size_t units, taken;   // Number of units in the region, and of those in use so far.
static uint32_t *length;      // Length in units of the block that starts at a unit.
static uint32_t *following;   // Next idle block of the same class after the block that starts at a unit, plus one.
static uint32_t idle[classes]; // First idle block of a class, plus one.
static size_t idle_units;

__attribute__((constructor)) static void reserve(void) {
	// Smaller allocations also stay with the process.
	mallopt(M_MMAP_MAX, 0);
	mallopt(M_TRIM_THRESHOLD, -1);
	// Eight arenas a core, the library's default, each keep what a compilation on one of XLA's threads has left. One a core does.
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	if (!getenv("MALLOC_ARENA_MAX")) {
		mallopt(M_ARENA_MAX, cores < 2 ? 2 : (int)cores);
	}
	size_t size = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE) & ~(size_t)(huge - 1);
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	size_t table = size / unit * sizeof(uint32_t);
	char *space = mmap(NULL, size + huge, PROT_READ | PROT_WRITE, flags, -1, 0);
	char *tables = mmap(NULL, 2 * table, PROT_READ | PROT_WRITE, flags, -1, 0);
	if (space == MAP_FAILED || tables == MAP_FAILED || size / unit > UINT32_MAX) {
		return; // The C library handles everything.
	}
	region = (char *)(((uintptr_t)space + huge - 1) & ~(uintptr_t)(huge - 1));
#ifdef MADV_HUGEPAGE
	madvise(region, size, MADV_HUGEPAGE);
#endif
	length = (uint32_t *)tables;
	following = (uint32_t *)(tables + table);
	units = size / unit;
}

static int ours(const void *block) { return (uintptr_t)block - (uintptr_t)region < units * unit; }

// class_of returns the class of blocks of at least n ≥ 16 units and sets n to their length: four classes to each doubling.
static int class_of(size_t *n) {
	int shift = 63 - __builtin_clzll(*n) - 2;
	size_t top = (*n + ((size_t)1 << shift) - 1) >> shift; // 4 to 8
	*n = top << shift;
	return shift * 4 + (int)top;
}

// take returns a block of the region, or NULL if the region is full.
static void *take(size_t size) {
	size_t n = (size + unit - 1) / unit;
	if (size > units * unit) {
		return NULL;
	}
	int class = class_of(&n);
	void *block = NULL;
	pthread_mutex_lock(&lock);
	if (idle[class] != 0) {
		size_t at = idle[class] - 1;
		idle[class] = following[at];
		idle_units -= n;
		block = region + at * unit;
	} else if (n <= units - taken) {
		length[taken] = (uint32_t)n;
		block = region + taken * unit;
		taken += n;
	}
	pthread_mutex_unlock(&lock);
	return block;
}

// give keeps a block for the next request of its class. If idle blocks exceed half of the machine's memory, their pages are released and only
// their addresses are kept.
static void give(void *block) {
	size_t at = (size_t)((char *)block - region) / unit;
	size_t n = length[at];
	int class = class_of(&n);
	pthread_mutex_lock(&lock);
	idle_units += n;
	if (idle_units > units / 2) {
		madvise(block, n * unit, MADV_DONTNEED);
	}
	following[at] = idle[class];
	idle[class] = (uint32_t)at + 1;
	pthread_mutex_unlock(&lock);
}

void *aligned_alloc(size_t alignment, size_t size) {
	void *block = size >= smallest && alignment <= unit ? take(size) : NULL;
	return block != NULL ? block : __libc_memalign(alignment, size);
}

int posix_memalign(void **block, size_t alignment, size_t size) {
	if (alignment % sizeof(void *) != 0 || alignment == 0 || (alignment & (alignment - 1)) != 0) {
		return EINVAL;
	}
	void *got = aligned_alloc(alignment, size);
	if (got == NULL) {
		return ENOMEM;
	}
	*block = got;
	return 0;
}

void free(void *block) {
	if (block != NULL && ours(block)) {
		give(block);
	} else {
		__libc_free(block);
	}
}

void *realloc(void *block, size_t size) {
	if (block == NULL || !ours(block)) {
		return __libc_realloc(block, size);
	}
	if (size == 0) {
		give(block);
		return NULL;
	}
	void *moved = malloc(size);
	if (moved != NULL) {
		size_t had = (size_t)length[(size_t)((char *)block - region) / unit] * unit;
		memcpy(moved, block, had < size ? had : size);
		give(block);
	}
	return moved;
}

#endif
