// Package features draws the features of images.
//
// In go a few images and files of encoders. Out come grids of pictures: training views, principal components of patch features, correspondences between
// images, attention, and patches by t-SNE. A new picture of features gets its own file here.
package features
