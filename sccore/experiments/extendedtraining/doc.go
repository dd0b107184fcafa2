// Package extendedtraining is the experiment on the fairness of the paper's comparison ("Effects of Extended Training and Dataset"): DINO, iBOT and Mugs go on
// with their own losses, on objects, on scenes and on the mixture of both, beside the method and its alignment losses alone, all from the same encoder, for
// the same number of steps and images.
//
// A baseline is trained from scratch, or read from a file. The next arm gets a case in newWorker and a row in rows.
package extendedtraining
