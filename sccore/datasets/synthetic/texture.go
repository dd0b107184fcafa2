package synthetic

import (
	"math"
	"math/rand/v2"
)

// texture is a family of two-coloured patterns of the plane.
type texture int

const (
	plain texture = iota
	stripes
	checker
	grid
	dots
	blotches
	numTextures
)

func (t texture) String() string {
	return [...]string{"plain", "stripes", "checker", "grid", "dots", "blotches"}[t]
}

// pattern is a texture with its random choices drawn: a light and a dark shade, scale, rotation and phase.
type pattern struct {
	texture     texture
	light, dark rgb
	frequency   float64 // Periods per pixel.
	cos, sin    float64
	phaseU      float64 // In periods.
	phaseV      float64
	waves       [3][3]float64 // For blotches: the frequency along each axis, in turns per period, and the phase.
}

// newPattern draws the pattern of a part.
func newPattern(p part, saturation float64, rng *rand.Rand) pattern {
	between := func(low, high float64) float64 { return low + (high-low)*rng.Float64() }
	hue, value := p.hue+0.03*rng.NormFloat64(), between(0.75, 1)
	sin, cos := math.Sincos(between(0, 2*math.Pi))
	out := pattern{
		texture: p.texture,
		light:   fromHSV(hue, saturation, value), dark: fromHSV(hue, saturation, value*between(0.25, 0.45)),
		frequency: 1 / between(3.6, 5.2),
		cos:       cos, sin: sin, phaseU: rng.Float64(), phaseV: rng.Float64(),
	}
	for w := range out.waves {
		waveSin, waveCos := math.Sincos(between(0, 2*math.Pi))
		length := between(0.4, 0.8)
		out.waves[w] = [3]float64{length * waveCos, length * waveSin, rng.Float64()}
	}
	return out
}

// at returns the colour at a point of the plane, in pixels.
func (p *pattern) at(x, y float64) rgb {
	u := p.frequency*(p.cos*x+p.sin*y) + p.phaseU
	v := p.frequency*(p.cos*y-p.sin*x) + p.phaseV
	u, v = u-math.Floor(u), v-math.Floor(v)
	if p.isLight(u, v, p.frequency*x, p.frequency*y) {
		return p.light
	}
	return p.dark
}

// isLight reports whether a point is light. (u, v) is its position within a period, each from 0 to 1. Blotches have no period and use (x, y),
// the position in periods. Half of the plane is light, and all of it if the texture is plain: the other textures cannot be told apart by
// their amounts of light and dark.
func (p *pattern) isLight(u, v, x, y float64) bool {
	switch p.texture {
	case stripes:
		return u < 0.5
	case checker:
		return (u < 0.5) == (v < 0.5)
	case grid:
		return u > 1-math.Sqrt2/2 && v > 1-math.Sqrt2/2
	case dots:
		return (u-0.5)*(u-0.5)+(v-0.5)*(v-0.5) > 0.5/math.Pi
	case blotches:
		sum := 0.0
		for _, w := range p.waves {
			sum += math.Sin(2 * math.Pi * (w[0]*x + w[1]*y + w[2]))
		}
		return sum > 0
	}
	return true // plain
}
