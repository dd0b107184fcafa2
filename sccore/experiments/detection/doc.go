// Package detection is the experiment of object detection with full fine-tuning: Cascade Mask R-CNN on an encoder that is trained with it.
//
// In go COCO or synthetic scenes, and the encoders of package encoders. Out come records of COCO's AP of boxes and masks, the trained models, and Tab. obj_det
// and obj_det_full.
package detection
