package layers

import "math"

// Tap is how one sample of a resized line is computed: between two samples of the old line, Low and High, at a share of the way from the first to the second.
type Tap struct {
	Low, High int     // Equal if Share is 0.
	Share     float64 // In [0, 1).
}

// BilinearTaps returns how a line of samples is resized bilinearly, as torch.nn.functional.interpolate does with align_corners=False and without antialiasing.
func BilinearTaps(from, to int) []Tap {
	taps := make([]Tap, to)
	for i := range taps {
		// Positions beyond the centres of the border samples take the border's value.
		at := min(max((float64(i)+0.5)*float64(from)/float64(to)-0.5, 0), float64(from-1))
		low := int(math.Floor(at))
		if taps[i] = (Tap{low, low, at - float64(low)}); taps[i].Share > 0 {
			taps[i].High++
		}
	}
	return taps
}
