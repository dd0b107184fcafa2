// Package patchrecall is the experiment of single patches: do their features tell their class, every class counting the same?
//
// In go PASCAL VOC, CamVid, COCOStuff-27, ADE20k and Cityscapes, or synthetic scenes, and the encoders of package encoders. Out come records of the recall of
// a linear probe and of nearest neighbours, and tables, which the paper does not have. It shows the effect of a training that mIoU hides where
// one class covers most pixels; see [evaluation.PatchRecall].
package patchrecall
