// Package heads holds the heads on top of an encoder, as functions of graph nodes: [Projector] maps tokens to the space in which the method
// compares them, and [Segmentation] maps patch features to logits of the classes of pixels. Variables live under the scope that is passed in.
//
// Add a head as a file of its own. A segmentation head also needs a kind in segmentation.go and a case in testdata/heads.py.
package heads
