// Package synthetic draws images, scenes and videos of textured objects, so that everything runs without a download. Each function takes a
// number, a size and a seed, and returns a type of package datasets, with class, instance and part masks where it has them. The same
// arguments always give the same bytes. All sets are named "synthetic", so that nobody mistakes them for real data.
//
// [Images] shows single objects of eight classes. [Scenes], [Objects], [Segmentation] and [Videos] share six other classes, each with two
// parts. Add a kind of data as a file of its own, built from the scenes and objects in object.go.
package synthetic
