//go:build cgo && linux

package backend

// Linking buffers.c in is what it takes; the functions here are for tests, which may not name C themselves.

// #include <stdlib.h>
import "C"

import "unsafe"

func alignedAlloc(alignment, size int) unsafe.Pointer {
	return C.aligned_alloc(C.size_t(alignment), C.size_t(size))
}

func realloc(block unsafe.Pointer, size int) unsafe.Pointer { return C.realloc(block, C.size_t(size)) }

func free(block unsafe.Pointer) { C.free(block) }
