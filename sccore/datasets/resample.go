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
	n.resampleShrunk(out, stride, picture, Size{picture.Rect.Dy(), picture.Rect.Dx()}, 1, to, part)
}

// resampleShrunk is resample of a picture of the given full size that was shrunk by a factor, such as 4. Its last row and column may reach beyond the full
// picture.
func (n Interpolation) resampleShrunk(out []uint8, stride int, picture *image.RGBA, full Size, factor int, to Size, part image.Rectangle) {
	columns := n.taps(picture.Rect.Dx(), float64(full.Width)/float64(factor), to.Width).part(part.Min.X, part.Max.X)
	rows := n.taps(picture.Rect.Dy(), float64(full.Height)/float64(factor), to.Height).part(part.Min.Y, part.Max.Y)
	resampleBy(columns, rows, out, stride, picture)
}

// taps are how the samples of a resampled line are computed: sample i is the sum of count old samples from first[i] on, each times one of count weights.
type taps struct {
	count          int
	first, weights []int32 // Weights are in units of 2^−fixedPoint.
}

// part keeps the samples from a to b − 1.
func (t taps) part(a, b int) taps {
	return taps{t.count, t.first[a:b], t.weights[a*t.count : b*t.count]}
}

// fixedPoint is the number of binary digits behind the point of weights, as in Pillow: products with bytes and their sums fit into 32 bits. half is what
// rounds them.
const fixedPoint, half = 32 - 8 - 2, int32(1) << (32 - 8 - 2 - 1)

// taps resamples the first part of a line of from samples, as long as extent, to another length.
func (n Interpolation) taps(from int, extent float64, to int) taps {
	weight, support := n.kernel()
	if extent == float64(to) {
		weight, support = func(float64) float64 { return 1 }, 0.5 // Nothing is resampled.
	}
	step := extent / float64(to)
	widen := max(step, 1)
	limits := func(i int) (first, end int, centre float64) {
		centre = (float64(i) + 0.5) * step
		return max(int(centre-support*widen+0.5), 0), min(int(centre+support*widen+0.5), from), centre
	}
	t := taps{first: make([]int32, to)}
	for i := range to {
		first, end, _ := limits(i)
		t.count = max(t.count, end-first)
	}
	t.weights = make([]int32, to*t.count)
	all := make([]float64, t.count)
	for i := range to {
		first, end, centre := limits(i)
		// Fewer weights than others have, as at the ends of the line, are filled up with zeros.
		begin := min(first, from-t.count)
		t.first[i] = int32(begin)
		sum := 0.0
		for k := first; k < end; k++ {
			all[k-first] = weight((float64(k) - centre + 0.5) * (1 / widen))
			sum += all[k-first]
		}
		for k := first; k < end; k++ {
			w := all[k-first]
			if sum != 0 {
				w /= sum
			}
			t.weights[i*t.count+k-begin] = int32(math.Round(w * (1 << fixedPoint)))
		}
	}
	return t
}
