// Package sccore is the paper's method ("Methodology"). A [Config] and images go in, and a trained encoder comes out, with what each step
// measures of itself: the online branch and the target branch that follows it, the targets that Sinkhorn–Knopp makes, the patches that
// correspond in two views, the losses of a step, and the [Trainer] that runs it.
//
// A new part of a step gets a file step_NAME.go and a switch in [Config]. Losses, heads, layers, neighbours and metrics have packages of their
// own.
package sccore
