// Package heads holds what stands on top of an encoder, as functions of graph nodes: [Projector] maps tokens to the space where the method
// compares them, [Segmentation] maps the features of patches to the classes of pixels. Features go in, and projections or logits come out;
// variables live under the scope that is passed in.
//
// The next head gets a file here, named for it. A segmentation head also gets a kind in segmentation.go and a case in testdata/heads.py.
package heads
