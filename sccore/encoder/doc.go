// Package encoder holds the networks that map images to features, as functions of graph nodes: [Backbone], ResNet-18 and a small
// convolutional network, gives one vector an image; [ViT] gives tokens, and may have the paper's Object-Aware Filter. Images go in as
// [batch, height, width, 3], standardised.
//
// Variables are named as in torchvision and timm, with "/" for ".": layer1/0/conv1/weight, layer1/0/bn1/running_mean. Layouts are those
// of package layers. One seed of the store (SetRNGStateFromSeed) always gives the same weights.
//
// The next backbone gets a file here, is made of package layers, and is added to the list behind [ByName]; testdata compares it with PyTorch.
package encoder
