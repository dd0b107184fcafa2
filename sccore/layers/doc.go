// Package layers holds the building blocks of networks as functions of graph nodes: dense layers, convolutions, batch normalisation,
// bilinear resizing and RoI-Align. Variables live under the scope that is passed in.
//
// Initial values have PyTorch's distributions and come from the random numbers of the scope's store. The layouts differ from PyTorch's: the
// weight of a convolution is [height, width, in, out] instead of [out, in, height, width], and that of a dense layer is [in, out] instead
// of [out, in].
//
// Add a layer as a file of its own, with a golden file in testdata and the script that makes it.
package layers
