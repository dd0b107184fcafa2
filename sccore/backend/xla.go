//go:build cgo

package backend

import _ "github.com/gomlx/go-xla/compute/xla" // PJRT needs a C compiler; without one the Go engine stands alone.

const hasXLA = true
