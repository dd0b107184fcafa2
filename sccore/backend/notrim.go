//go:build !cgo || !linux

package backend

// Trim gives memory back that the C library holds and nothing uses. Without cgo there is none.
func Trim() {}
