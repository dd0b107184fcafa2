// Package finetuning is the experiment of semantic segmentation with full fine-tuning: UPerNet or a semantic FPN on an encoder that is trained with it.
//
// In go the datasets of the paper, PASCAL VOC and CamVid, or synthetic scenes, and the encoders of package encoders. Out come records of mIoU and pixel
// accuracy, the trained models, and Tab. semantic_seg_ft.
package finetuning
