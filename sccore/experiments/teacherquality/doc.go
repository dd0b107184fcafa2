// Package teacherquality is the experiment that decides when CoTAP helps. From one start for each seed, or on photographs from one file, patch alignment trains on with a loss of patch
// concentration whose gradient has a set share of alignment's, and whose correspondences come from a frozen third encoder or from labels with errors.
//
// In go losses, shares and sources of correspondences. Out come records of linear mIoU, or of recall over patches, beside those of alignment alone, with the precision and the AUC of
// what the loss has learned from, tables of gains and of what was predicted, and a figure of gains against precision.
package teacherquality
