// Package knn compares features by cosine: [Find] gives the images nearest to each image of a training set, which training draws positives
// from, and [Classifier] classifies queries by the votes of their nearest training features. Features go in as rows; indices or ranked
// classes come out. Both compare in blocks, so that a device holds one block of similarities at a time.
//
// The next use of nearest features, retrieval, gets a file here.
package knn
