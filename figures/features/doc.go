// Package features draws what encoders make of images.
//
// In go a few images and files of encoders; out come grids of pictures: the views that training cuts, the principal components of patch features, what
// corresponds in another image, and attention. The next way to look at features gets a file of its own here.
package features
