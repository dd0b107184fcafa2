// Package dispersion measures over-dispersion and the noise rate of correspondences. Patch features with the class and object of each patch go in.
// Mean similarities within and between objects and classes, the share of true positives by similarity ([Patches.Measure]), and the number of segments
// into which an object falls ([OverSegmentation]) come out.
//
// The next measure of patches gets a file here.
package dispersion
