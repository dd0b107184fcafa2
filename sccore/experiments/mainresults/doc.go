// Package mainresults is the experiment of the paper's main table. It evaluates frozen features: [CLS] tokens by classification, patch tokens by
// segmentation.
//
// In go ImageNet and COCOStuff-27, or synthetic objects and scenes, and the encoders of package encoders. Out come records with the columns of Tab. main.
// The ablation also measures with [Data.Measure].
package mainresults
