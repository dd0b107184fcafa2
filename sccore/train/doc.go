// Package train trains whatever learns: the method, SimCLR to SimSiam, the heads of an evaluation.
//
// In comes an [Objective]: the graph of one step, and the inputs of each. Out comes a [Trainer], which begins, steps, saves and resumes, and
// whose runs are the same bytes whether they stopped or not. A [Loop] takes a trainer from where a folder stands to the end of its run, with
// checkpoints on the way and any [Evaluator] every so many steps. What learns next implements Objective in its own package.
package train
