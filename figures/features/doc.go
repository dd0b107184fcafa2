// Package features draws the features of images.
//
// In go a few images and files of encoders. Out come grids of pictures: training views, principal components of patch features, correspondences between
// images, and attention. A new picture of features gets its own file here.
package features
