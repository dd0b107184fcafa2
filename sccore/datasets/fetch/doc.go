// Package fetch downloads datasets: the name of a dataset and a data folder go in, and the dataset lies there in its official layout, where
// package datasets reads it. A download goes on where it stopped, and nothing is ever half-unpacked.
//
// The next dataset gets an entry in archives, with the digest that its authors publish.
package fetch
