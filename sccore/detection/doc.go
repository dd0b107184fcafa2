// Package detection is Cascade Mask R-CNN (Cai and Vasconcelos, 2019) on a plain Vision Transformer, as functions of graph nodes with static shapes.
//
// In come the patch features of a batch of images, padded to one canvas, and in training the boxes, labels and masks of their objects, padded to one
// number, and uniform random numbers. Out come the losses, or the detections: boxes, scores, classes and masks, at a fixed number with a mask. Paste
// turns a mask into pixels, on the host.
//
// Boxes are x1, y1, x2, y2 in pixels of the canvas, [batch, n, 4]. Feature maps are [height, width, batch, channels].
//
// Add a part as a file of its own, with a golden file in testdata and the script that makes it.
package detection
