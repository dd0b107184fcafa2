// Package train trains anything that learns: the method, SimCLR to SimSiam, the heads of an evaluation.
//
// It takes an [Objective], the graph of one step and the inputs of each step, and returns a [Trainer] that begins, steps, saves and resumes. A run
// ends with the same bytes whether or not it was interrupted. A [Loop] continues a run from the state of its folder to the end, with checkpoints and
// any number of [Evaluator] on the way. The next thing to train implements Objective in its own package.
package train
