package datasets

import (
	"fmt"
	"slices"
)

// Videos is a set of short videos with object masks.
type Videos struct {
	Name string // "DAVIS-2017 val"

	// Identity identifies the videos: their number, the number of frames, and the first 16 hexadecimal digits of the SHA-256 digest of the
	// files' names and sizes.
	Identity string

	All []Video // In the order of the dataset's list.

	folder, masks string // The folder of DAVIS, and the year of the release that its masks come from.
}

// Video is a sequence of frames of one size, read on demand.
type Video struct {
	Name   string
	Frames int
	Size   // Size of every frame and mask.

	frame, mask func(i int) ([]uint8, error)
}

// NewVideo makes a video from functions that read its frames and masks, as [Video.Frame] and [Video.Mask] do.
func NewVideo(name string, frames int, size Size, frame, mask func(i int) ([]uint8, error)) Video {
	return Video{name, frames, size, frame, mask}
}

// Frame returns frame i, [Height, Width, 3] from 0 to 255. It panics unless 0 ≤ i < Frames. The error names the file.
func (v Video) Frame(i int) ([]uint8, error) { return v.frame(i) }

// Mask returns the annotation of frame i, [Height, Width]: 0 for the background, and 1, 2, … for the objects. It panics unless
// 0 ≤ i < Frames. The error names the file.
func (v Video) Mask(i int) ([]uint8, error) { return v.mask(i) }

// Objects returns the number of objects to track: the highest number in the first mask, as the DAVIS code counts them. A first mask
// without objects is an error.
func (v Video) Objects() (int, error) {
	first, err := v.Mask(0)
	if err != nil {
		return 0, err
	}
	highest := int(slices.Max(first))
	if highest == 0 {
		return 0, fmt.Errorf("video %s: no object in the first mask", v.Name)
	}
	return highest, nil
}
