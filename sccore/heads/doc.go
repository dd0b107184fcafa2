// Package heads holds the heads on top of an encoder, as functions of graph nodes: [Projector] maps tokens to the space in which the method
// compares them, and [DINOHead] to the logits that DINO, iBOT and Mugs compare. [Segmentation] maps patch features of a frozen encoder to logits of the classes of pixels. For fine-tuning, [Pyramid] turns the blocks
// of a vision transformer into maps of four sizes, and [UPerNet], with its [Auxiliary] head, or [SemanticFPN] maps these to logits.
//
// Features come in as [batch, rows, columns, features]. Maps inside the heads, and logits, are [rows, columns, batch, channels], as in package layers, and
// labels are [height, width, batch]. Variables live under the scope that is passed in. Those of the heads for fine-tuning have the names of
// mmsegmentation, with "/" for ".", below one scope for the whole network: backbone, neck, decode_head and auxiliary_head.
//
// Add a head as a file of its own. A segmentation head also needs a kind in segmentation.go and a case in testdata/heads.py, or, on the pyramid, a
// network in testdata/pyramid.py.
package heads
