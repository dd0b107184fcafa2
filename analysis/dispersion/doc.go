// Package dispersion measures over-dispersion, and the noise rate of correspondences. Patch features with the class and the object of each
// patch go in; out come mean similarities within and between objects and classes, the share of true positives by similarity
// ([Patches.Measure]), and into how many segments an object falls ([OverSegmentation]).
//
// The next measure of patches gets a file here.
package dispersion
