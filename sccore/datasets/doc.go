// Package datasets reads images with what is known of them. A data folder and a split go in, each dataset in its official layout; out come
// [Images], labelled and held in memory, [Segmentation], with a class for every pixel, [Videos], with masks of objects, and [ImageFolder], without
// labels. [Loader] draws batches for training from them. What a reader reads is said in an Identity, which goes into the records of a run.
//
// The next dataset gets a file here, named for it, and an entry in found.go. Drawn data is in package synthetic, downloads in package fetch.
package datasets
