// Package cotap measures the cost of CoTAP: CPU time and memory of the loss of one image pair with its gradient, for each way to compute it. It keeps no
// records, so it is not an experiment. Notebook 02 plots its numbers.
package cotap
