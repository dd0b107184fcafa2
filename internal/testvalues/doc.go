// Package testvalues holds inputs that the tests of several packages share: features drawn in clusters, and the label maps of golden files.
package testvalues
