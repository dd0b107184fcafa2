//go:build cgo

package backend

import _ "github.com/gomlx/go-xla/compute/xla" // PJRT needs a C compiler. Without one, only the Go engine is available.

const hasXLA = true
