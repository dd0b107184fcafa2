// Package pairsum computes the sums over pairs of pairs that CoTAP consists of, exactly. Scores of patch pairs go in; sums over all pairs of lower or
// higher target score come out, for each pair. There are three ways to the same sums: [BruteForce] and [Tree] in the graph, forward and backward, and
// [Sweep] in plain Go.
//
// The tree consists of an order (order.go), levels of nodes (level.go), leaves in which all pairs are compared (leaf.go), and a correction for ties
// across leaves (ties.go). The next ranking loss over all pairs takes its sums from here.
package pairsum
