//go:build !cgo || !linux

package xlacache

// Install does nothing: without a C compiler, or on other systems, programs are compiled by every process.
func Install(plugin, device string) error { return nil }

// DeviceMemory is not known.
func DeviceMemory() int64 { return 0 }
