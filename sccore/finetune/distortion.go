package finetune

import (
	"math"
	"math/rand/v2"

	"github.com/semcon/semcon/sccore/datasets"
)

// distortion is a photometric distortion of bytes, as mmsegmentation's PhotoMetricDistortion: brightness; contrast, here or at the end; saturation; hue. Each
// applies to half of the images, so that one in sixteen stays as it is.
type distortion struct {
	brightness    float32 // Added to each channel; 0 for none.
	contrast      float32 // What each channel is multiplied by; 1 for none.
	contrastFirst bool    // Contrast comes before saturation and hue.

	// Saturation and hue are changed in 8-bit HSV. The way there and back changes most colours by a level or two.
	saturates, shiftsHue bool
	saturation           float32 // What the saturation is multiplied by.
	hue                  int     // Added to the hue, which counts from 0 to 179.
}

// The ranges of the recipe. The hue is shifted by −18 to 17, because NumPy leaves out the upper end.
const (
	brightnessDelta                                                  = 32
	minContrast, maxContrast, minSaturation, maxSaturation, hueDelta = 0.5, 1.5, 0.5, 1.5, 18
)

// drawDistortion draws one. It draws everything, also what does not apply.
func drawDistortion(random *rand.Rand) distortion {
	half := func() bool { return random.IntN(2) == 1 }
	uniform := func(low, high float64) float32 { return float32(low + float64((high-low)*random.Float64())) }
	brightens, brightness := half(), uniform(-brightnessDelta, brightnessDelta)
	d := distortion{contrast: 1, contrastFirst: half()}
	contrasts, contrast := half(), uniform(minContrast, maxContrast)
	d.saturates, d.saturation = half(), uniform(minSaturation, maxSaturation)
	d.shiftsHue, d.hue = half(), random.IntN(2*hueDelta)-hueDelta
	if brightens {
		d.brightness = brightness
	}
	if contrasts {
		d.contrast = contrast
	}
	return d
}

// apply distorts an image in the top left corner of RGB pixels, whose rows have stride pixels.
func (d distortion) apply(pixels []uint8, stride int, size datasets.Size) {
	before, after := scaled(1, d.brightness), scaled(1, 0)
	if contrast := scaled(d.contrast, 0); d.contrastFirst {
		for i, x := range before {
			before[i] = contrast[x]
		}
	} else {
		after = contrast
	}
	saturation := scaled(d.saturation, 0)
	for y := range size.Height {
		for x := range size.Width {
			p := (*[3]uint8)(pixels[3*(y*stride+x):])
			for c := range p {
				p[c] = before[p[c]]
			}
			if d.saturates {
				h, s, v := toHSV(*p)
				*p = fromHSV(h, saturation[s], v)
			}
			if d.shiftsHue {
				h, s, v := toHSV(*p)
				*p = fromHSV(uint8((int(h)+d.hue+hues)%hues), s, v)
			}
			for c := range p {
				p[c] = after[p[c]]
			}
		}
	}
}

// scaled is a table of bytes times a factor plus a summand, clipped and rounded down, in float32.
func scaled(factor, summand float32) (table [256]uint8) {
	for x := range table {
		table[x] = uint8(min(max(float32(float32(x)*factor)+summand, 0), 255))
	}
	return table
}

// hues is the number of hues in 8-bit HSV: one for every two degrees.
const hues = 180

// hsvBits is the number of binary digits of the reciprocals in these tables, as in OpenCV.
const hsvBits = 12

var saturationOver, hueOver = func() (saturation, hue [256]int) {
	for i := 1; i < 256; i++ {
		saturation[i] = int(math.RoundToEven(255 << hsvBits / float64(i)))
		hue[i] = int(math.RoundToEven(hues << hsvBits / (6 * float64(i))))
	}
	return saturation, hue
}()

// toHSV returns hue, 0 to 179, saturation and value of an RGB colour. It computes as cv2.cvtColor with COLOR_RGB2HSV, to the last bit for every colour.
func toHSV(p [3]uint8) (h, s, v uint8) {
	r, g, b := int(p[0]), int(p[1]), int(p[2])
	value := max(r, g, b)
	chroma := value - min(r, g, b)
	hue := 0
	switch value {
	case r:
		hue = g - b
	case g:
		hue = b - r + 2*chroma
	default:
		hue = r - g + 4*chroma
	}
	const half = 1 << (hsvBits - 1)
	if hue = (hue*hueOver[chroma] + half) >> hsvBits; hue < 0 {
		hue += hues
	}
	return uint8(hue), uint8((chroma*saturationOver[value] + half) >> hsvBits), uint8(value)
}

// fromHSV returns the RGB colour of hue, below 180, saturation and value. It computes as cv2.cvtColor with COLOR_HSV2RGB, to the last bit for every colour,
// on processors with fused multiplication and addition. OpenCV rounds down there, but rounds to the nearest in the last few pixels of a row that are fewer than a
// vector register takes; here all pixels are rounded down.
func fromHSV(h, s, v uint8) [3]uint8 {
	hue := float32(h) * (6.0 / hues)
	sector := int(hue)
	hue -= float32(sector)
	saturation, value := float32(float32(s)*(1.0/255)), float32(float32(v)*(1.0/255))
	fused := func(share float32) float32 { return float32(1 - float64(saturation)*float64(share)) } // The product is exact.
	level := func(factor float32) uint8 { return uint8(float32(float32(value*factor) * 255)) }
	full, low, falling, rising := level(1), level(1-saturation), level(fused(hue)), level(fused(1-hue))
	switch sector {
	case 0:
		return [3]uint8{full, rising, low}
	case 1:
		return [3]uint8{falling, full, low}
	case 2:
		return [3]uint8{low, full, rising}
	case 3:
		return [3]uint8{low, falling, full}
	case 4:
		return [3]uint8{rising, low, full}
	}
	return [3]uint8{full, low, falling}
}
