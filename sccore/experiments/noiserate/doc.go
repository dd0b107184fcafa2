// Package noiserate is the experiment of Fig. noise_rate: how often do similar patches of different images share their class, before and after training
// with the method?
//
// In go annotated images, COCOStuff-27, PASCAL VOC or synthetic scenes, and the encoders of package encoders. Out come records of the positive rate by
// similarity, a table, the figure and the claims C20 and C21.
package noiserate
