package finetune

import (
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
