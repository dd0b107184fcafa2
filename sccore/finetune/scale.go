package finetune

import (
	"fmt"

	"github.com/semcon/semcon/sccore/datasets"
)

// Scale says how large images become: as large as they can with their aspect kept, their longer side at most Long and their shorter side at most Short.
type Scale struct {
	Long  int `json:"long"`  // Longest side of a resized image in pixels.
	Short int `json:"short"` // Its shorter side in pixels, at most Long.
}

// maxScale bounds the sides, as the ratio of [SegmentationTransform] does, so that a wrong setting is an error and not out of memory.
const maxScale = 1 << 14

func (s Scale) check() error {
	if s.Short < 1 || s.Long < s.Short || s.Long > maxScale {
		return fmt.Errorf("scale %d×%d: want 1 ≤ short ≤ long ≤ %d", s.Long, s.Short, maxScale)
	}
	return nil
}

// times is the scale times a ratio, rounded down.
func (s Scale) times(ratio float64) Scale {
	return Scale{max(1, int(float64(s.Long)*ratio)), max(1, int(float64(s.Short)*ratio))}
}

// Of returns the size that an image becomes, each side rounded to the nearest pixel, as by mmcv's imrescale.
func (s Scale) Of(size datasets.Size) datasets.Size {
	factor := min(float64(s.Long)/float64(max(size.Height, size.Width)), float64(s.Short)/float64(min(size.Height, size.Width)))
	length := func(side int) int { return max(1, int(float64(float64(side)*factor)+0.5)) }
	return datasets.Size{Height: length(size.Height), Width: length(size.Width)}
}
