// Package layers holds the building blocks of networks as functions of graph nodes: dense layers, convolutions and their transposes, batch normalisation,
// resizing, pooling, dropout and RoI-Align. Variables live under the scope that is passed in.
//
// Initial values have PyTorch's distributions and come from the random numbers of the scope's store. The layouts differ from PyTorch's: the
// weight of a convolution is [height, width, in, out] instead of [out, in, height, width], that of a transposed convolution is
// [height, width, out, in] instead of [in, out, height, width], and that of a dense layer is [in, out] instead of [out, in].
//
// Add a layer as a file of its own, with a golden file in testdata and the script that makes it.
package layers
