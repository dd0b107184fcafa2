// Package gradcheck compares gradients of graph functions with finite differences.
package gradcheck
