//go:build cgo

package backend

// #include <stdlib.h> // Says whether the C library is glibc.
// #ifdef __GLIBC__
// #include <malloc.h>
// static void semcon_trim(void) { malloc_trim(0); }
// #else
// static void semcon_trim(void) {}
// #endif
import "C"

import (
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/go-xla/compute/xla" // PJRT needs a C compiler. Without one, only the Go engine is available.
	"github.com/gomlx/go-xla/pjrt"
)

const hasXLA = true

// openCPUs opens XLA's CPU plugin with n virtual devices. GoMLX's configurations have no option for that.
func openCPUs(config string, n int) (compute.Backend, error) {
	return xla.NewWithOptions(strings.TrimPrefix(config, "xla:"), pjrt.NamedValuesMap{"cpu_device_count": int64(n)})
}

// Trim gives memory back that the C library holds and nothing uses. XLA's CPU plugin takes hundreds of megabytes to compile a step, and package buffers
// keeps the C library from returning what steps free. So callers trim after compiling.
func Trim() { C.semcon_trim() }
