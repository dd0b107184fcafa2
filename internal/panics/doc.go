// Package panics turns a panic into an error. In goes a function, out comes its error: a panic in a goroutine ends the process unless the goroutine
// itself recovers, so every goroutine that does an experiment's work runs through [Catch].
package panics
