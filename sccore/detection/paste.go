package detection

import "math"

// maskThreshold is the least probability of a pixel of an object.
const maskThreshold = 0.5

// Paste returns the pixels of an object in an image of height × width, in reading order, from its mask, [size·size] probabilities, and its box x1, y1, x2,
// y2 in pixels of that image. A pixel belongs to the object if the mask, interpolated bilinearly at the pixel's centre and 0 outside, is at least 1/2, as
// in detectron2's paste_masks_in_image on the CPU. It computes in float32, as detectron2 does. A box without area, or with a NaN, has no pixels.
func Paste(mask []float32, size int, box [4]float32, height, width int) []bool {
	pixels := make([]bool, height*width)
	if !(box[2] > box[0] && box[3] > box[1]) {
		return pixels
	}

	// Detectron2 looks at the pixels up to one beyond the box.
	first := func(low float32) int { return int(max(math.Floor(float64(low))-1, 0)) }
	end := func(high float32, extent int) int { return int(min(math.Ceil(float64(high))+1, float64(extent))) }
	columns := make([]place, 0, width)
	left := min(first(box[0]), width)
	for x := left; x < end(box[2], width); x++ {
		columns = append(columns, placeOf(x, box[0], box[2], size))
	}
	at := func(row, column int) float32 {
		if row < 0 || row >= size || column < 0 || column >= size {
			return 0
		}
		return mask[row*size+column]
	}
	for y := first(box[1]); y < end(box[3], height); y++ {
		row := placeOf(y, box[1], box[3], size)
		for i, column := range columns {
			value := at(row.index, column.index)*(1-column.share)*(1-row.share) + at(row.index, column.index+1)*column.share*(1-row.share) +
				at(row.index+1, column.index)*(1-column.share)*row.share + at(row.index+1, column.index+1)*column.share*row.share
			pixels[y*width+left+i] = value >= maskThreshold
		}
	}
	return pixels
}

// place is where a pixel lies on an axis of a mask: between the value at index and the next one, by share.
type place struct {
	index int
	share float32
}

// placeOf returns the place of the centre of a pixel in a box from low to high.
func placeOf(pixel int, low, high float32, size int) place {
	// The detour by coordinates from -1 to 1 rounds as torch.nn.functional.grid_sample with align_corners=False.
	normalised := (float32(pixel)+0.5-low)/(high-low)*2 - 1
	at := ((normalised+1)*float32(size) - 1) / 2
	index := math.Floor(float64(at))
	index = max(min(index, float64(size)), -2) // All further ones are outside too.
	return place{int(index), at - float32(index)}
}
