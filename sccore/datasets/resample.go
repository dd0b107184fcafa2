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

// resample resizes RGB pixels, [from.Height, from.Width, 3], and returns a part of the result. It computes as the resize of Pillow 3 to 12, to the last bit: first
// along the rows and then along the columns, each pass in fixed point and rounded to bytes. Pillow 13 begins with the columns where they shrink more.
func (n Interpolation) resample(pixels []uint8, from, to Size, part image.Rectangle) []uint8 {
	width, height := part.Dx(), part.Dy()
	if from.Width != to.Width || width != to.Width {
		taps, out := n.taps(from.Width, to.Width)[part.Min.X:part.Max.X], make([]uint8, 0, from.Height*width*3)
		for y := range from.Height {
			row := pixels[y*from.Width*3 : (y+1)*from.Width*3]
			for _, tap := range taps {
				sums := [3]int32{half, half, half}
				for k, w := range tap.weights {
					pixel := row[3*(tap.first+k):][:3]
					sums[0], sums[1], sums[2] = sums[0]+w*int32(pixel[0]), sums[1]+w*int32(pixel[1]), sums[2]+w*int32(pixel[2])
				}
				out = append(out, toByte(sums[0]), toByte(sums[1]), toByte(sums[2]))
			}
		}
		pixels = out
	}
	if from.Height != to.Height || height != to.Height {
		out, sums := make([]uint8, 0, height*width*3), make([]int32, width*3)
		for _, tap := range n.taps(from.Height, to.Height)[part.Min.Y:part.Max.Y] {
			for x := range sums {
				sums[x] = half
			}
			for k, w := range tap.weights {
				for x, value := range pixels[(tap.first+k)*width*3 : (tap.first+k+1)*width*3] {
					sums[x] += w * int32(value)
				}
			}
			for _, sum := range sums {
				out = append(out, toByte(sum))
			}
		}
		pixels = out
	}
	return pixels
}

// tap is how one sample of a resampled line is computed: the first of the old samples, and the weight of each from there on.
type tap struct {
	first   int
	weights []int32 // In units of 2^−fixedPoint.
}

// fixedPoint is the number of binary digits behind the point of weights, as in Pillow: products with bytes and their sums fit into 32 bits. half is what
// rounds them.
const fixedPoint, half = 32 - 8 - 2, int32(1) << (32 - 8 - 2 - 1)

func toByte(sum int32) uint8 { return uint8(min(max(sum>>fixedPoint, 0), 255)) }

func (n Interpolation) taps(from, to int) []tap {
	weight, support := n.kernel()
	if from == to {
		weight, support = func(float64) float64 { return 1 }, 0.5 // Nothing is resampled.
	}
	step := float64(from) / float64(to)
	widen := max(step, 1)
	taps, all := make([]tap, to), make([]float64, 0, 16)
	for i := range taps {
		centre := (float64(i) + 0.5) * step
		first, end := max(int(centre-support*widen+0.5), 0), min(int(centre+support*widen+0.5), from)
		sum := 0.0
		all = all[:0]
		for k := first; k < end; k++ {
			w := weight((float64(k) - centre + 0.5) * (1 / widen))
			all, sum = append(all, w), sum+w
		}
		taps[i] = tap{first, make([]int32, len(all))}
		for k, w := range all {
			if sum != 0 {
				w /= sum
			}
			taps[i].weights[k] = int32(math.Round(w * (1 << fixedPoint)))
		}
	}
	return taps
}
