package heads

import "github.com/semcon/semcon/sccore/layers"

// PredictPixels predicts the class of each pixel of a height×width image from its logits, [rows, columns, classes]. It resizes the logits
// bilinearly, as [layers.ResizeBilinear] does, and returns the class with the largest logit, or the first of equal ones. It runs on the host,
// because the device would compile a graph for each size of image.
func PredictPixels(logits []float32, rows, columns, classes, height, width int) []uint8 {
	out := make([]uint8, 0, height*width)
	across := layers.BilinearTaps(columns, width)
	line := make([]float32, columns*classes)
	for _, down := range layers.BilinearTaps(rows, height) {
		low, high := logits[down.Low*columns*classes:][:columns*classes], logits[down.High*columns*classes:][:columns*classes]
		share := float32(down.Share)
		for i := range line {
			line[i] = low[i] + share*(high[i]-low[i])
		}
		for _, tap := range across {
			low, high, share := line[tap.Low*classes:][:classes], line[tap.High*classes:][:classes], float32(tap.Share)
			best, largest := 0, low[0]+share*(high[0]-low[0])
			for class := 1; class < classes; class++ {
				if value := low[class] + share*(high[class]-low[class]); value > largest {
					best, largest = class, value
				}
			}
			out = append(out, uint8(best))
		}
	}
	return out
}
