// Package transfer is the experiment of semantic segmentation with fixed features: a linear head or an FCN on the patch features of a frozen encoder.
//
// In go the four datasets of the paper, or synthetic scenes, and the encoders of package encoders. Out come records of mIoU and pixel accuracy, the
// trained heads, Tab. semantic_seg and semantic_seg_acc, and claim C22.
package transfer
