//go:build cgo

package backend

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
