package metrics

import (
	"fmt"
	"math"
	"slices"
)

// JF says how well the masks of one object agree with the ground truth, as shares: region J and boundary F of DAVIS (Perazzi et al. 2016; Pont-Tuset
// et al. 2017). It may also be the mean over the objects of many videos.
type JF struct {
	J, F JFMeasure
}

// Mean is J&F, the mean of the two means.
func (d JF) Mean() float64 { return (d.J.Mean + d.F.Mean) / 2 }

// JFMeasure summarises a measure over the frames of a video, as the DAVIS-2017 code does.
type JFMeasure struct {
	Mean   float64 // Over frames.
	Recall float64 // The share of frames above 0.5.
	Decay  float64 // The mean over the first quarter of the frames minus that over the last; neighbouring quarters share a frame.
}

// EvaluateJF compares the predicted masks of a video with the true ones, all [height·width] with 0 for the background, and returns one result for
// each object from 1 to objects. As in the semi-supervised task of the DAVIS code, the first frame, which is given, and the last do not count; a
// video needs at least three frames. An object that is in neither mask of a frame scores 1 there.
func EvaluateJF(truth, predicted [][]uint8, height, width, objects int) ([]JF, error) {
	if len(truth) < 3 {
		return nil, fmt.Errorf("J&F: %d frames, want at least 3: the first and the last do not count", len(truth))
	}
	var out []JF
	for object := 1; object <= objects; object++ {
		var regions, boundaries []float64
		for i := 1; i < len(truth)-1; i++ {
			t, p := maskOf(truth[i], object), maskOf(predicted[i], object)
			regions = append(regions, region(t, p))
			boundaries = append(boundaries, boundaryMeasure(t, p, height, width))
		}
		out = append(out, JF{summarise(regions), summarise(boundaries)})
	}
	return out, nil
}

// MeanJF is the mean over objects, of any videos; 0 if there are none.
func MeanJF(objects []JF) (mean JF) {
	for _, o := range objects {
		for _, m := range []struct{ to, from *JFMeasure }{{&mean.J, &o.J}, {&mean.F, &o.F}} {
			m.to.Mean += m.from.Mean / float64(len(objects))
			m.to.Recall += m.from.Recall / float64(len(objects))
			m.to.Decay += m.from.Decay / float64(len(objects))
		}
	}
	return mean
}

func maskOf(labels []uint8, object int) []bool {
	mask := make([]bool, len(labels))
	for p, label := range labels {
		mask[p] = int(label) == object
	}
	return mask
}

// region is J, the intersection over the union, 1 where both masks are empty.
func region(truth, predicted []bool) float64 {
	both := countBoth(truth, predicted)
	either := countTrue(truth) + countTrue(predicted) - both
	if either == 0 {
		return 1
	}
	return float64(both) / float64(either)
}

// boundaryMeasure is F, the harmonic mean of two shares: of the predicted outline that lies near the true one, and of the true outline that lies near
// the predicted one. Near is within 0.008 of the frame's diagonal, rounded up to pixels.
func boundaryMeasure(truth, predicted []bool, height, width int) float64 {
	radius := int(math.Ceil(0.008 * math.Hypot(float64(height), float64(width))))
	outlineT, outlineP := outline(truth, height, width), outline(predicted, height, width)
	precision, recall := 1.0, 1.0
	switch countT, countP := countTrue(outlineT), countTrue(outlineP); {
	case countP == 0 && countT == 0:
	case countP == 0:
		recall = 0
	case countT == 0:
		precision = 0
	default:
		precision = float64(countBoth(outlineP, dilated(outlineT, height, width, radius))) / float64(countP)
		recall = float64(countBoth(outlineT, dilated(outlineP, height, width, radius))) / float64(countT)
	}
	if precision+recall == 0 {
		return 0
	}
	return 2 * precision * recall / (precision + recall)
}

// outline marks the pixels that differ from the one to the right, the one below, or the one diagonally below; the last row and column compare only
// with the neighbour that they have. (seg2bmap of the Berkeley benchmark, which DAVIS uses.)
func outline(mask []bool, height, width int) []bool {
	out := make([]bool, len(mask))
	for y := range height {
		for x := range width {
			p := y*width + x
			right, below := x+1 < width, y+1 < height
			out[p] = right && mask[p+1] != mask[p] || below && mask[p+width] != mask[p] || right && below && mask[p+width+1] != mask[p]
		}
	}
	return out
}

// dilated marks the pixels within a radius of the marked ones.
func dilated(marked []bool, height, width, radius int) []bool {
	half := make([]int, radius+1) // Half the width of the disk, by rows from its centre.
	for dy := range half {
		for (half[dy]+1)*(half[dy]+1)+dy*dy <= radius*radius {
			half[dy]++
		}
	}
	out := make([]bool, len(marked))
	for p, is := range marked {
		if !is {
			continue
		}
		x, y := p%width, p/width
		for row := max(y-radius, 0); row <= min(y+radius, height-1); row++ {
			reach := half[max(row-y, y-row)]
			for column := max(x-reach, 0); column <= min(x+reach, width-1); column++ {
				out[row*width+column] = true
			}
		}
	}
	return out
}

func countTrue(marked []bool) int { return countBoth(marked, marked) }

func countBoth(a, b []bool) (count int) {
	for p := range a {
		if a[p] && b[p] {
			count++
		}
	}
	return count
}

// summarise computes the three numbers from a measure's values by frame. Quarters begin and end at frames 1 + i·(n − 1)/4, rounded. (The DAVIS code
// keeps frame numbers in 8 bits and goes wrong beyond 256 frames, which no video of DAVIS has.)
func summarise(values []float64) (m JFMeasure) {
	mean := func(values []float64) float64 {
		sum := 0.0
		for _, value := range values {
			sum += value
		}
		return sum / float64(len(values))
	}
	end := func(quarter int) int {
		return int(math.RoundToEven(1+float64(quarter*(len(values)-1))/4+1e-10)) - 1
	}
	above := slices.DeleteFunc(slices.Clone(values), func(value float64) bool { return value <= 0.5 })
	return JFMeasure{
		Mean:   mean(values),
		Recall: float64(len(above)) / float64(len(values)),
		Decay:  mean(values[end(0):end(1)+1]) - mean(values[end(3):end(4)+1]),
	}
}
