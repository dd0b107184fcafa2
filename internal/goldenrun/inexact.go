//go:build !amd64 || goexperiment.simd

package goldenrun

const exact = false
