package stats

import (
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// ByImage are the counts behind a score, of each test image: triples of a class, how much of it is right, and how much of it counts. The score is 100 times the mean
// over classes of what is right among all that counts.
type ByImage [][][3]int

// Score returns the score of images that count as often as weights say, one for each; nil for once each. Classes without anything that counts are left out.
func (b ByImage) Score(weights []int) float64 {
	var right, all []int // By class.
	for i, classes := range b {
		times := 1
		if weights != nil {
			times = weights[i]
		}
		for _, c := range classes {
			for len(all) <= c[0] {
				right, all = append(right, 0), append(all, 0)
			}
			right[c[0]] += times * c[1]
			all[c[0]] += times * c[2]
		}
	}
	sum, count := 0.0, 0
	for class, n := range all {
		if n > 0 {
			sum, count = sum+float64(right[class])/float64(n), count+1
		}
	}
	return 100 * sum / float64(count)
}

// Add counts a patch or an image of a class, right or not.
func (b ByImage) Add(image, class int, right bool) {
	at := slices.IndexFunc(b[image], func(c [3]int) bool { return c[0] == class })
	if at < 0 {
		at, b[image] = len(b[image]), append(b[image], [3]int{class})
	}
	if b[image][at][2]++; right {
		b[image][at][1]++
	}
}

// resamples is the number of draws of a bootstrap.
const resamples = 1000

// ImageInterval is the 95 % interval of what a quantity would be with other test images of the same kind: the percentiles of a bootstrap, which draws as many images
// with replacement (Efron 1979, Bootstrap Methods). quantity takes how often each image counts, see [ByImage.Score]. Scores that are compared take the same draw, and so
// are paired. N is the number of images, SD the standard deviation over draws, which are the same in each call.
func ImageInterval(images int, quantity func(weights []int) float64) Interval {
	random, drawn := rand.New(rand.NewPCG(1, uint64(images))), make([]float64, resamples)
	for i := range drawn {
		weights := make([]int, images)
		for range images {
			weights[random.IntN(images)]++
		}
		drawn[i] = quantity(weights)
	}
	slices.Sort(drawn)
	at := func(p float64) float64 { return stat.Quantile(p, stat.LinInterp, drawn, nil) }
	return Interval{Mean: quantity(nil), SD: stat.StdDev(drawn, nil), Low: at((1 - Confidence) / 2), High: at((1 + Confidence) / 2), N: images}
}
