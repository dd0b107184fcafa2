// Package finetune trains whole networks on labelled images. For semantic segmentation, a [datasets.Segmentation] goes in: [SegmentationTransform] makes a
// training crop of an image and its labels, [SegmentationLoader] makes batches of them, and [Normalize] makes a batch the input of a graph.
// [SegmentationInference] takes the logits that a network gives to crops, and the class of every pixel of an image comes out, or [metrics.Segmentation] of a set.
//
// The arithmetic is that of mmsegmentation 0.x and of OpenCV, which the published recipes run on; testdata holds what they compute. Another task has
// files of its own, named for it, and a transform, a loader and an inference like these.
package finetune
