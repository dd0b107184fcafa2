// Package synthetic draws images, scenes and videos of textured objects, so that everything runs without a download. Each function takes a
// number, a size and a seed, and returns a type of package datasets, with class, instance and part masks where it has them. The same
// arguments always give the same bytes. All sets are named "synthetic", so that nobody mistakes them for real data.
//
// [Images] shows single objects of eight classes. [Scenes], [Objects] and [Videos] share six other classes, each with two
// parts. Add a kind of data as a file of its own, built from the scenes and objects in scenes.go.
package synthetic

import (
	"bytes"
	"context"
	"fmt"
	"image/png"
	"math"
	"math/rand/v2"
	"path/filepath"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/sccore/datasets"
)

// part is a part of an object, filled with one texture in one hue.
type part struct {
	texture texture
	hue     float64 // In turns.
}

type objectClass struct {
	name string
	core part // The ellipse inside.
	rim  part // The ring around it.
}

// kind is what a set shows.
type kind struct {
	name                     string
	extent                   float64 // The size in pixels at which scenes are defined; they are sampled at other sizes. Lengths are in these pixels.
	classes                  []objectClass
	smallest, largest        float64 // Radius of objects.
	fewest                   int     // Of blobs. There are up to four more.
	smallestBlob, widestBlob float64
	// hue draws the hue of a part of this or another class, and shift how far a blob's hue is from it.
	hue, shift func(rng *rand.Rand) float64
	// choose draws the classes of the objects in image i, from front to back.
	choose func(i int, rng *rand.Rand) []int
}

// single is the kind of [Images]. Four pairs of hues and four pairs of textures make eight classes. Each pair belongs to two classes, so that neither
// the colours nor the textures alone determine the class.
var single = func() kind {
	const red, yellow, green, cyan, blue, magenta = 0.0, 1.0 / 6, 2.0 / 6, 3.0 / 6, 4.0 / 6, 5.0 / 6
	hues := [][2]float64{{red, cyan}, {yellow, blue}, {green, magenta}, {blue, red}}
	textures := [][2]texture{{stripes, dots}, {checker, blotches}, {grid, stripes}, {dots, grid}}
	var classes []objectClass
	for i := range hues {
		for _, j := range []int{i, (i + 1) % len(textures)} {
			core, rim := part{textures[j][0], hues[i][0]}, part{textures[j][1], hues[i][1]}
			name := fmt.Sprintf("%s %s in %s %s", hueName(core.hue), core.texture, hueName(rim.hue), rim.texture)
			classes = append(classes, objectClass{name, core, rim})
		}
	}
	return kind{
		"synthetic", 32, classes, 8, 12.5, 3, 1.5, 4,
		func(rng *rand.Rand) float64 { return classes[rng.IntN(len(classes))].core.hue },
		func(rng *rand.Rand) float64 { return between(rng, -0.05, 0.05) },
		func(i int, _ *rand.Rand) []int { return []int{i % len(classes)} },
	}
}()

func hueName(hue float64) string {
	return [...]string{"red", "yellow", "green", "cyan", "blue", "magenta"}[int(math.Round(hue*6))%6]
}

// Images draws n images of size×size pixels with one object each: a core and a ring around it. Their textures and hues determine the class,
// one of eight in turn. The object has a random place, size, shape and rotation, on a textured background with blobs in the colours of the
// parts, so that neither place nor colours alone reveal the class. Images panics unless n ≥ 1 and size ≥ 8.
//
// The same arguments always give the same bytes, and the first images do not depend on n. Different seeds give different samples of the same
// classes: use one for training and another for testing.
func Images(n, size int, seed uint64) *datasets.Images { return single.draw(n, size, seed, nil) }

// draw draws n images, and calls each for their scenes, if it is not nil, with the classes of the objects in them.
func (k kind) draw(n, size int, seed uint64, each func(i int, s *scene, classes []int)) *datasets.Images {
	if n < 1 || size < 8 {
		panic(fmt.Sprintf("synthetic: %d %s images of %d pixels a side, want at least 1 of at least 8", n, k.name, size))
	}
	im := &datasets.Images{Name: k.name, Height: size, Width: size, Pixels: make([]uint8, n*size*size*3), Labels: make([]int32, n)}
	im.Classes = lo.Map(k.classes, func(class objectClass, _ int) string { return class.name })
	err := datasets.EachImage(context.Background(), n, 0, func(i int) error {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		classes := k.choose(i, rng)
		s := k.scene(classes, rng)
		im.Labels[i] = int32(classes[0])
		sample(im.At(i), size, k.extent, s.colour, rng)
		if each != nil {
			each(i, s, classes)
		}
		return nil
	})
	if err != nil {
		panic(err) // Here the caller can recover it.
	}
	im.Identify(fmt.Sprintf("%s (seed %d)", k.name, seed))
	return im
}

// sample draws a square with sides of length extent into size×size pixels, with a little noise.
func sample(pixels []uint8, size int, extent float64, at func(x, y float64) rgb, rng *rand.Rand) {
	// Two by two samples per pixel smooth the edges.
	const samples = 2
	step := extent / float64(size*samples)
	for py := range size {
		for px := range size {
			var sum rgb
			for dy := range samples {
				for dx := range samples {
					c := at((float64(px*samples+dx)+0.5)*step, (float64(py*samples+dy)+0.5)*step)
					for k := range sum {
						sum[k] += c[k]
					}
				}
			}
			noise := rng.NormFloat64() * 0.015
			for k := range sum {
				pixels[(py*size+px)*3+k] = uint8(255*min(1, max(0, sum[k]/(samples*samples)+noise)) + 0.5)
			}
		}
	}
}

func between(rng *rand.Rand, low, high float64) float64 { return low + (high-low)*rng.Float64() }

// scene draws a scene with objects of the given classes, from front to back.
func (k kind) scene(classes []int, rng *rand.Rand) *scene {
	s := &scene{background: newPattern(part{texture(rng.IntN(int(numTextures))), rng.Float64()}, between(rng, 0.2, 0.8), rng)}
	for _, class := range classes {
		// Up to ten places are tried until one is clear of the objects in front, so that few objects are hidden.
		var o object
		for range 10 {
			o = newObject(k.classes[class], k.extent, k.smallest, k.largest, rng)
			if lo.EveryBy(s.objects, func(front object) bool { return math.Hypot(front.x-o.x, front.y-o.y) >= k.largest }) {
				break
			}
		}
		s.objects = append(s.objects, o)
	}
	for range k.fewest + rng.IntN(5) {
		hue := k.hue(rng)
		s.blobs = append(s.blobs, blob{
			x: between(rng, 0, k.extent), y: between(rng, 0, k.extent), radius: between(rng, k.smallestBlob, k.widestBlob),
			colour: fromHSV(hue+k.shift(rng), between(rng, 0.4, 1), between(rng, 0.4, 0.95)),
		})
	}
	return s
}

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
	o.radius, o.squeeze, o.coreShare = between(rng, smallest, largest), between(rng, 0.7, 1), between(rng, 0.52, 0.64)
	o.x, o.y = between(rng, o.radius-2, size-o.radius+2), between(rng, o.radius-2, size-o.radius+2)
	o.sin, o.cos = math.Sincos(between(rng, 0, 2*math.Pi))
	o.wobbleSin, o.wobbleCos = between(rng, -0.08, 0.08), between(rng, -0.08, 0.08)
	o.core, o.rim = newPattern(class.core, between(rng, 0.7, 1), rng), newPattern(class.rim, between(rng, 0.7, 1), rng)
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
	hue, value := p.hue+0.03*rng.NormFloat64(), between(rng, 0.75, 1)
	sin, cos := math.Sincos(between(rng, 0, 2*math.Pi))
	out := pattern{
		texture: p.texture,
		light:   fromHSV(hue, saturation, value), dark: fromHSV(hue, saturation, value*between(rng, 0.25, 0.45)),
		frequency: 1 / between(rng, 3.6, 5.2),
		cos:       cos, sin: sin, phaseU: rng.Float64(), phaseV: rng.Float64(),
	}
	for w := range out.waves {
		waveSin, waveCos := math.Sincos(between(rng, 0, 2*math.Pi))
		length := between(rng, 0.4, 0.8)
		out.waves[w] = [3]float64{length * waveCos, length * waveSin, rng.Float64()}
	}
	return out
}

// at returns the colour at a point of the plane, in pixels.
func (p *pattern) at(x, y float64) rgb {
	u := p.frequency*(p.cos*x+p.sin*y) + p.phaseU
	v := p.frequency*(p.cos*y-p.sin*x) + p.phaseV
	u, v = u-math.Floor(u), v-math.Floor(v)
	return lo.Ternary(p.isLight(u, v, p.frequency*x, p.frequency*y), p.light, p.dark)
}

// isLight reports whether a point is light. (u, v) is its position within a period, each from 0 to 1. Blotches have no period and use (x, y), the position in
// periods. Half of the plane is light, and all of it if the texture is plain: the other textures cannot be told apart by their amounts of light and dark.
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

// WriteFolder writes images as PNG files into class folders, for what reads folders.
func WriteFolder(dir string, images *datasets.Images) (err error) {
	defer try.Handle(&err)
	for i := range images.Len() {
		var encoded bytes.Buffer
		try.E(png.Encode(&encoded, images.Image(i)))
		try.E(atomicfile.WriteBytes(filepath.Join(dir, images.Classes[images.Labels[i]], fmt.Sprintf("%04d.png", i)), encoded.Bytes()))
	}
	return nil
}
