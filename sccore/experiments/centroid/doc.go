// Package centroid is the experiment of nearest-centroid classification: are the features of patches of one class close to each other?
//
// In go COCOStuff-27 or synthetic scenes, and the encoders of package encoders. Out come records of patch accuracy and a table, which the paper does not
// have. CONTRIBUTING.md explains how to add such an evaluation with this package as its example.
package centroid
