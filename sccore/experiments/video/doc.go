// Package video is the experiment of video object segmentation: the features of a frozen encoder propagate the first mask through each video.
//
// In go the videos of DAVIS, or synthetic ones, and the encoders of package encoders. Out come J&F records, Tab. video_seg and claim C23.
package video
