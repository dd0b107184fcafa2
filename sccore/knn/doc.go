// Package knn compares features by cosine. [Find] returns the nearest images of each image of a training set, from which training draws positives;
// [Classifier] classifies queries by the votes of their nearest training features. Features go in as rows; indices or ranked classes come out. Both
// compare in blocks, so that a device holds one block of similarities at a time.
//
// The next use of nearest features, such as retrieval, gets a file here.
package knn
