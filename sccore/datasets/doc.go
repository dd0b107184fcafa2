// Package datasets reads images and their annotations. A reader takes a data folder with datasets in their official layouts and a split. It
// returns [Images], labelled and held in memory; [Segmentation], with a class for every pixel; [Instances], with annotated objects; [Videos], with object masks; or
// [ImageFolder], which needs no labels. [Loader] makes training batches. Each dataset has an Identity, which goes into the records of a run.
//
// Add a dataset as a file of its own and list it in available.go. Package synthetic draws synthetic data, package fetch downloads archives.
package datasets
