//go:build amd64 && !goexperiment.simd

package goldenrun

// exact reports whether the Go engine of this build rounds like the one that wrote the golden runs.
const exact = true
