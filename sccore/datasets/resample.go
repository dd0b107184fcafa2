package datasets

import (
	"image"
	"math"
)

// Interpolation names the kernel that images are resampled with. Both widen when an image shrinks, which avoids aliases.
type Interpolation string

// The kernels. Images resized with one and with the other differ by several of 255 levels.
const (
	Bicubic  Interpolation = "bicubic" // Keys' kernel (1981) with a = −0.5.
	Bilinear Interpolation = "bilinear"
)

// kernel returns the kernel and half its width in samples.
func (n Interpolation) kernel() (weight func(x float64) float64, support float64) {
	if n == Bilinear {
		return func(x float64) float64 { return max(0, 1-math.Abs(x)) }, 1
	}
	return func(x float64) float64 {
		const a = -0.5
		switch x = math.Abs(x); {
		case x < 1:
			return ((a+2)*x-(a+3))*x*x + 1
		case x < 2:
			return (((x-5)*x+8)*x - 4) * a
		}
		return 0
	}, 2
}

// resample resizes the colours of a picture and writes a part of the result into RGB pixels with rows of stride pixels. It computes as the resize of Pillow 3
// to 12, to the last bit: first along the rows and then along the columns, each pass in fixed point and rounded to bytes. Pillow 13 begins with the columns
// where they shrink more.
func (n Interpolation) resample(out []uint8, stride int, picture *image.RGBA, to Size, part image.Rectangle) {
	columns := n.taps(picture.Rect.Dx(), to.Width).part(part.Min.X, part.Max.X)
	rows := n.taps(picture.Rect.Dy(), to.Height).part(part.Min.Y, part.Max.Y)
	resampleBy(columns, rows, out, stride, picture)
}

// taps are how the samples of a resampled line are computed. Sample i is the sum of the old samples from first[i] on, each times one of the weights
// weights[at[i]:at[i+1]].
type taps struct {
	first, at, weights []int32 // Weights are in units of 2^−fixedPoint.
}

// part keeps the samples from a to b − 1.
func (t taps) part(a, b int) taps { return taps{t.first[a:b], t.at[a : b+1], t.weights} }

// of returns the old samples of sample i, and their weights.
func (t taps) of(i int) (first, end int, weights []int32) {
	weights = t.weights[t.at[i]:t.at[i+1]]
	return int(t.first[i]), int(t.first[i]) + len(weights), weights
}

// most is the largest number of weights of a sample.
func (t taps) most() (most int) {
	for i := range t.first {
		most = max(most, int(t.at[i+1]-t.at[i]))
	}
	return most
}

// fixedPoint is the number of binary digits behind the point of weights, as in Pillow: products with bytes and their sums fit into 32 bits. half is what
// rounds them.
const fixedPoint, half = 32 - 8 - 2, int32(1) << (32 - 8 - 2 - 1)

// taps resamples a line of from samples to another length.
func (n Interpolation) taps(from, to int) taps {
	weight, support := n.kernel()
	if from == to {
		weight, support = func(float64) float64 { return 1 }, 0.5 // Nothing is resampled.
	}
	step := float64(from) / float64(to)
	widen := max(step, 1)
	t, all := taps{first: make([]int32, to), at: make([]int32, to+1)}, make([]float64, 0, 16)
	for i := range to {
		centre := (float64(i) + 0.5) * step
		first, end := max(int(centre-support*widen+0.5), 0), min(int(centre+support*widen+0.5), from)
		sum := 0.0
		all = all[:0]
		for k := first; k < end; k++ {
			w := weight((float64(k) - centre + 0.5) * (1 / widen))
			all, sum = append(all, w), sum+w
		}
		t.first[i] = int32(first)
		for _, w := range all {
			if sum != 0 {
				w /= sum
			}
			t.weights = append(t.weights, int32(math.Round(w*(1<<fixedPoint))))
		}
		t.at[i+1] = int32(len(t.weights))
	}
	return t
}
