//go:build !cgo

package backend

import (
	"errors"

	"github.com/gomlx/compute"
)

const hasXLA = false

func openCPUs(string, int) (compute.Backend, error) {
	return nil, errors.New("this program is built without a C compiler, and cannot load XLA")
}

// Trim gives memory back that the C library holds and nothing uses. Without cgo there is none.
func Trim() {}
