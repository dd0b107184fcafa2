package heads

import "github.com/semcon/semcon/sccore/layers"

// PredictPixels predicts the class of each pixel of a height×width image from its logits, [rows, columns, classes]. It resizes the logits
// bilinearly, as [layers.ResizeBilinear] does, and returns the class with the largest logit, or the first of equal ones. It runs on the host,
// because the device would compile a graph for each size of image.
func PredictPixels(logits []float32, rows, columns, classes, height, width int) []uint8 {
	out := make([]uint8, 0, height*width)
	across := newTaps(columns, width)
	line := make([]float32, columns*classes)
	for _, down := range newTaps(rows, height) {
		low, high := logits[down.low*columns*classes:][:columns*classes], logits[down.high*columns*classes:][:columns*classes]
		for i := range line {
			line[i] = low[i] + down.share*(high[i]-low[i])
		}
		for _, tap := range across {
			low, high := line[tap.low*classes:][:classes], line[tap.high*classes:][:classes]
			best, largest := 0, low[0]+tap.share*(high[0]-low[0])
			for class := 1; class < classes; class++ {
				if value := low[class] + tap.share*(high[class]-low[class]); value > largest {
					best, largest = class, value
				}
			}
			out = append(out, uint8(best))
		}
	}
	return out
}

// tap is the position of a sample of a resized line: between two samples of the line, at a share of the way from low to high.
type tap struct {
	low, high int
	share     float32
}

func newTaps(from, to int) []tap {
	taps := make([]tap, to)
	weights := layers.BilinearWeights(from, to)
	for i := range taps {
		line := weights[i*from : (i+1)*from]
		for at, weight := range line {
			if weight == 0 {
				continue
			}
			if taps[i] = (tap{at, at, 0}); weight < 1 {
				taps[i] = tap{at, at + 1, float32(line[at+1])}
			}
			break
		}
	}
	return taps
}
