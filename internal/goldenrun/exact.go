//go:build amd64 && !goexperiment.simd

package goldenrun

// exact tells whether this build's Go engine rounds as the one that wrote the golden runs did.
const exact = true
