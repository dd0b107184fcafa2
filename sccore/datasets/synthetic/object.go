package synthetic

import (
	"math"
	"math/rand/v2"
)

// scene describes one image before it is sampled, with all its random choices drawn.
type scene struct {
	background pattern
	blobs      []blob   // Distractors behind the objects.
	objects    []object // From front to back.
}

type blob struct {
	x, y, radius float64
	colour       rgb
}

// at returns the object at a point, counted from 1, or 0 for none; the region of the object; and the colour.
func (s *scene) at(x, y float64) (instance int, in region, colour rgb) {
	for i := range s.objects {
		if in, colour := s.objects[i].at(x, y); in != outside {
			return i + 1, in, colour
		}
	}
	for _, b := range s.blobs {
		if (x-b.x)*(x-b.x)+(y-b.y)*(y-b.y) < b.radius*b.radius {
			return 0, outside, b.colour
		}
	}
	return 0, outside, s.background.at(x, y)
}

func (s *scene) colour(x, y float64) rgb {
	_, _, colour := s.at(x, y)
	return colour
}

// object is an ellipse with a wavy outline. It has a core and a rim.
type object struct {
	x, y, radius float64
	squeeze      float64 // Ratio of the shorter axis to the longer one.
	cos, sin     float64 // The rotation.
	wobbleSin    float64 // Amplitudes of sin(3·angle) and cos(3·angle) in the outline's radius.
	wobbleCos    float64
	coreShare    float64 // Ratio of the core's radius to the object's.
	core, rim    pattern
}

// newObject draws an object of a class with a radius in the given range, inside a square of the given size.
func newObject(class objectClass, size, smallest, largest float64, rng *rand.Rand) (o object) {
	between := func(low, high float64) float64 { return low + (high-low)*rng.Float64() }
	o.radius, o.squeeze, o.coreShare = between(smallest, largest), between(0.7, 1), between(0.52, 0.64)
	o.x, o.y = between(o.radius-2, size-o.radius+2), between(o.radius-2, size-o.radius+2)
	o.sin, o.cos = math.Sincos(between(0, 2*math.Pi))
	o.wobbleSin, o.wobbleCos = between(-0.08, 0.08), between(-0.08, 0.08)
	o.core, o.rim = newPattern(class.core, between(0.7, 1), rng), newPattern(class.rim, between(0.7, 1), rng)
	return o
}

// region is the part of an object that a point lies in.
type region int

const (
	outside region = iota
	inCore
	inRim
)

// at returns the region of a point and, unless it is outside, its colour.
func (o *object) at(x, y float64) (region, rgb) {
	u, v := o.cos*(x-o.x)+o.sin*(y-o.y), (o.cos*(y-o.y)-o.sin*(x-o.x))/o.squeeze
	length := math.Sqrt(u*u + v*v)
	outline := o.radius
	if length > 0 {
		sin, cos := v/length, u/length
		outline *= 1 + o.wobbleSin*sin*(3-4*sin*sin) + o.wobbleCos*cos*(4*cos*cos-3)
	}
	switch distance := length / outline; {
	case distance < o.coreShare:
		return inCore, o.core.at(u, v)
	case distance < 1:
		return inRim, o.rim.at(u, v)
	}
	return outside, rgb{}
}

// rgb is a colour with red, green and blue from 0 to 1.
type rgb [3]float64

// fromHSV converts a hue in turns, and a saturation and a value from 0 to 1.
func fromHSV(hue, saturation, value float64) rgb {
	var c rgb
	for k, offset := range [...]float64{5, 3, 1} {
		sector := math.Mod(math.Mod(6*hue, 6)+6+offset, 6)
		c[k] = value * (1 - saturation*max(0, min(1, sector, 4-sector)))
	}
	return c
}
