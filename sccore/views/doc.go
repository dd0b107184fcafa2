// Package views makes the augmented views that self-supervised training compares: random resized crop, horizontal flip, colour
// jitter, grayscale and Gaussian blur, in SimCLR's order, as operations of the computation graph over a whole batch.
//
// [Recipe.Draw] draws all randomness on the host, into a small tensor with a row of [NumParams] numbers for each view. [Apply] is a
// deterministic function of the images and this tensor. A transformation that a recipe leaves out gets neutral parameters, so one compiled
// graph serves every recipe. A row also holds the position of its view in the image; see [Boxes].
//
// Each transformation computes the same as torchvision's function of that name on float images. Add a transformation by giving it
// parameters in transform.go.
package views
