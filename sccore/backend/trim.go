//go:build cgo && linux

package backend

// #include <stdlib.h> // Says whether the C library is glibc.
// #ifdef __GLIBC__
// #include <malloc.h>
// static void semcon_trim(void) { malloc_trim(0); }
// #else
// static void semcon_trim(void) {}
// #endif
import "C"

import "unsafe"

// Trim gives memory back that the C library holds and nothing uses. XLA's CPU plugin takes hundreds of megabytes to compile a step, and buffers.c keeps the C library
// from returning what steps free. So callers trim after compiling.
func Trim() { C.semcon_trim() }

// Linking buffers.c is enough to use it. The functions here are for tests, which cannot use cgo.

func alignedAlloc(alignment, size int) unsafe.Pointer {
	return C.aligned_alloc(C.size_t(alignment), C.size_t(size))
}

func realloc(block unsafe.Pointer, size int) unsafe.Pointer { return C.realloc(block, C.size_t(size)) }

func free(block unsafe.Pointer) { C.free(block) }
