package datasets

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"

	"golang.org/x/sync/errgroup"
)

// The synthetic set is drawn at 32 pixels a side and scaled from there: lengths below are in pixels of that size.
const syntheticSide = 32

// A part of an object is filled with one texture in one hue.
type part struct {
	texture texture
	hue     float64 // In turns.
}

type syntheticClass struct {
	name string
	core part // The ellipse inside.
	rim  part // The ring around it.
}

// Four pairs of hues and four pairs of textures make eight classes, in each of which a pair of either kind is shared with one other
// class: who knows only the colours, or only the textures, guesses between two.
var syntheticClasses = func() (classes []syntheticClass) {
	const red, yellow, green, cyan, blue, magenta = 0.0, 1.0 / 6, 2.0 / 6, 3.0 / 6, 4.0 / 6, 5.0 / 6
	hues := [][2]float64{{red, cyan}, {yellow, blue}, {green, magenta}, {blue, red}}
	textures := [][2]texture{{stripes, dots}, {checker, blotches}, {grid, stripes}, {dots, grid}}
	for i := range hues {
		for _, j := range []int{i, (i + 1) % len(textures)} {
			core, rim := part{textures[j][0], hues[i][0]}, part{textures[j][1], hues[i][1]}
			classes = append(classes, syntheticClass{
				name: fmt.Sprintf("%s %s in %s %s", hueName(core.hue), core.texture, hueName(rim.hue), rim.texture), core: core, rim: rim,
			})
		}
	}
	return classes
}()

func hueName(hue float64) string {
	return [...]string{"red", "yellow", "green", "cyan", "blue", "magenta"}[int(math.Round(hue*6))%6]
}

// Synthetic draws n images of size×size pixels, each of one object: a core and a ring around it, each with a texture and a hue, that
// together make its class (one of eight, in turn). The object has a random place, size, shape and rotation, on a textured background
// with blobs in the colours of the parts, so that neither place nor colours alone give the class away. It panics unless n ≥ 1 and
// size ≥ 8.
//
// The same arguments give the same bytes, and the first images do not depend on n. Different seeds are different samples of the same
// classes: take one for training and another for testing. The set is called "synthetic", so that nobody takes it for real images.
func Synthetic(n, size int, seed uint64) *Images {
	if n < 1 || size < 8 {
		panic(fmt.Sprintf("datasets.Synthetic: %d images of %d pixels a side, want at least 1 of at least 8", n, size))
	}
	im := &Images{
		Name: "synthetic", Height: size, Width: size,
		Pixels: make([]uint8, n*size*size*3), Labels: make([]int32, n),
	}
	for _, class := range syntheticClasses {
		im.Classes = append(im.Classes, class.name)
	}
	var workers errgroup.Group
	workers.SetLimit(runtime.GOMAXPROCS(0))
	for i := range n {
		im.Labels[i] = int32(i % len(syntheticClasses))
		workers.Go(func() error {
			drawObject(im.At(i), size, syntheticClasses[im.Labels[i]], syntheticRNG(seed, i))
			return nil
		})
	}
	workers.Wait()
	im.identify(fmt.Sprintf("synthetic (seed %d)", seed))
	return im
}

// syntheticRNG makes the random choices of one image.
func syntheticRNG(seed uint64, image int) *rand.Rand {
	return rand.New(rand.NewPCG(seed, uint64(image)))
}

// scene is one image before it is sampled: everything in it, with its random choices made.
type scene struct {
	background   pattern
	blobs        []blob // Distractors, behind the object.
	x, y, radius float64
	squeeze      float64 // The object's shorter axis over its longer one.
	cos, sin     float64 // Its rotation.
	wobbleSin    float64 // The outline's radius varies by sin(3·angle) and cos(3·angle) times these.
	wobbleCos    float64
	coreShare    float64 // The core's radius over the object's.
	core, rim    pattern
}

type blob struct {
	x, y, radius float64
	colour       rgb
}

func drawObject(pixels []uint8, size int, class syntheticClass, rng *rand.Rand) {
	s := newScene(class, rng)
	// Two by two samples a pixel take the steps off the edges.
	const samples = 2
	step := float64(syntheticSide) / float64(size*samples)
	for py := range size {
		for px := range size {
			var sum rgb
			for dy := range samples {
				for dx := range samples {
					c := s.at((float64(px*samples+dx)+0.5)*step, (float64(py*samples+dy)+0.5)*step)
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

func newScene(class syntheticClass, rng *rand.Rand) *scene {
	between := func(low, high float64) float64 { return low + (high-low)*rng.Float64() }
	s := &scene{
		background: newPattern(part{texture(rng.IntN(int(numTextures))), rng.Float64()}, between(0.2, 0.8), rng),
		radius:     between(8, 12.5),
		squeeze:    between(0.7, 1),
		coreShare:  between(0.52, 0.64),
	}
	s.x, s.y = between(s.radius-2, syntheticSide-s.radius+2), between(s.radius-2, syntheticSide-s.radius+2)
	s.sin, s.cos = math.Sincos(between(0, 2*math.Pi))
	s.wobbleSin, s.wobbleCos = between(-0.08, 0.08), between(-0.08, 0.08)
	s.core, s.rim = newPattern(class.core, between(0.7, 1), rng), newPattern(class.rim, between(0.7, 1), rng)
	for range 3 + rng.IntN(5) {
		// The colours of the blobs are those of parts, of this class or another.
		c := syntheticClasses[rng.IntN(len(syntheticClasses))].core
		s.blobs = append(s.blobs, blob{
			x: between(0, syntheticSide), y: between(0, syntheticSide), radius: between(1.5, 4),
			colour: fromHSV(c.hue+between(-0.05, 0.05), between(0.4, 1), between(0.4, 0.95)),
		})
	}
	return s
}

// at returns the colour at a point.
func (s *scene) at(x, y float64) rgb {
	u, v := s.cos*(x-s.x)+s.sin*(y-s.y), (s.cos*(y-s.y)-s.sin*(x-s.x))/s.squeeze
	length := math.Sqrt(u*u + v*v)
	outline := s.radius
	if length > 0 {
		sin, cos := v/length, u/length
		outline *= 1 + s.wobbleSin*sin*(3-4*sin*sin) + s.wobbleCos*cos*(4*cos*cos-3)
	}
	distance := length / outline
	switch {
	case distance < s.coreShare:
		return s.core.at(u, v)
	case distance < 1:
		return s.rim.at(u, v)
	}
	for _, b := range s.blobs {
		if (x-b.x)*(x-b.x)+(y-b.y)*(y-b.y) < b.radius*b.radius {
			return b.colour
		}
	}
	return s.background.at(x, y)
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
