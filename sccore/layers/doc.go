// Package layers holds the parts that networks are made of, as functions of graph nodes: tensors go in and come out, and variables live
// under the scope that is passed in. Dense layers, convolutions, batch normalisation, bilinear resizing and RoI-Align.
//
// Initial values have PyTorch's distributions and come from the generator of the scope's store. Only layouts differ: a convolution's weight
// is [height, width, in, out] where PyTorch's is [out, in, height, width], a dense layer's is [in, out] where PyTorch's is [out, in].
//
// The next layer gets a file here, named for it, and a golden file in testdata with the script that made it.
package layers
