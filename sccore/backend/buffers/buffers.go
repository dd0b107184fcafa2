//go:build cgo && linux

package buffers

// #include <stdlib.h>
import "C"

import "unsafe"

// Linking buffers.c is enough to use it. The functions here are for tests, which cannot use cgo.

func alignedAlloc(alignment, size int) unsafe.Pointer {
	return C.aligned_alloc(C.size_t(alignment), C.size_t(size))
}

func realloc(block unsafe.Pointer, size int) unsafe.Pointer { return C.realloc(block, C.size_t(size)) }

func free(block unsafe.Pointer) { C.free(block) }
