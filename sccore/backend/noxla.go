//go:build !cgo

package backend

const hasXLA = false
