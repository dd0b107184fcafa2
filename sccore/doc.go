// Package sccore is the paper's method ("Methodology") around encoder and losses: the projector, the targets that Sinkhorn–Knopp makes of
// the target branch's outputs, RoI-Align of the overlap of two views, the target branch that follows the online one, and the k-nearest
// images that are positives of each other.
//
// All but the search for neighbours are functions of the computation graph, to be put together into a training step.
package sccore
