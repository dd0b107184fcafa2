// Package buffers replaces the C library's allocator for large blocks in a program that imports it for its effect:
//
//	import _ "github.com/semcon/semcon/sccore/backend/buffers"
//
// XLA's CPU plugin takes the buffers of a step from the C library and gives them back after it, so that each step clears and faults in the same pages again: a
// third of the time of a small network. With this package blocks of a mebibyte and more stay with the process, in huge pages, for the next step. It replaces
// free, realloc and aligned_alloc of the whole process, so that programs take it and libraries do not: the binary and the notebooks of this project do. It does
// nothing without cgo, and on systems other than Linux with glibc.
package buffers
