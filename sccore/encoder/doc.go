// Package encoder holds the networks that map images to features, as functions of graph nodes. A [Backbone], ResNet-18 or a small
// convolutional network, returns one vector per image. A [ViT], from DINO's of 2021 to DINOv3's, returns tokens, and may have the paper's Object-Aware Filter. Images are
// [batch, height, width, 3], standardised.
//
// Variables are named as in torchvision and timm, with "/" for ".": layer1/0/conv1/weight, layer1/0/bn1/running_mean. Layouts are those of
// package layers. A seed of the store (SetRNGStateFromSeed) always gives the same weights.
//
// Add a backbone as a file of its own, built from package layers, and list it in families. A golden file in testdata compares it with
// PyTorch.
package encoder
