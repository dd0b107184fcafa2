// Package pairsum finds the sums over pairs of pairs that CoTAP is made of, exactly: scores of patch pairs go in, and for each pair come out
// sums over all pairs of lower or higher target score. There are three ways to the same sums: [BruteForce] and [Tree] in the graph, forward and
// back, and [Sweep] in plain Go.
//
// The tree is made of an order (order.go), levels of nodes (level.go), leaves in which each pair meets each (leaf.go), and a correction for ties
// across leaves (ties.go). The next ranking loss over all pairs takes its sums from here.
package pairsum
