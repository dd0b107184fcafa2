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

// Trim gives memory back that the C library holds and nothing uses. XLA's CPU plugin takes hundreds of megabytes to compile a step, and package buffers
// keeps the C library from returning what steps free. So callers trim after compiling.
func Trim() { C.semcon_trim() }
