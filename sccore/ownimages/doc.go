// Package ownimages trains an encoder on anyone's photographs, with the paper's method, and watches whether it gets worse.
//
// In go a folder of images, or one of scenes and one of objects, and a file of weights or nothing. Out come the encoder in the naming that it came in, its
// diagnostics as metrics.csv and TensorBoard events, and a page report.html. No labels are needed; class folders, where there are some, give a k-NN accuracy.
//
// images.go opens folders, defaults.go chooses settings from the number of images, diagnostics.go measures, run.go trains, and report.go writes the page.
package ownimages
