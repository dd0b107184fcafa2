// Package knn compares features by cosine. [Bank] finds the nearest of a set of features for any queries; [Find] the nearest images of each image of a training
// set, from which training draws positives; [Classifier] classifies queries by the votes of their nearest training features. Features go in as rows; indices
// or ranked classes come out. All of them search in the blocks of a [Bank], so that memory grows with no product of sizes.
//
// The next use of nearest features, such as retrieval, gets a file here and searches a [Bank].
package knn
