package synthetic

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"

	"github.com/semcon/semcon/internal/panics"
	"github.com/semcon/semcon/sccore/datasets"
	"golang.org/x/sync/errgroup"
)

// imageSize is the size in pixels at which the images are defined; they are sampled at other sizes. Lengths below are in these pixels.
const imageSize = 32

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

// imageClasses combines four pairs of hues and four pairs of textures into eight classes. Each pair belongs to two classes, so that neither
// the colours nor the textures alone determine the class.
var imageClasses = func() (classes []objectClass) {
	const red, yellow, green, cyan, blue, magenta = 0.0, 1.0 / 6, 2.0 / 6, 3.0 / 6, 4.0 / 6, 5.0 / 6
	hues := [][2]float64{{red, cyan}, {yellow, blue}, {green, magenta}, {blue, red}}
	textures := [][2]texture{{stripes, dots}, {checker, blotches}, {grid, stripes}, {dots, grid}}
	for i := range hues {
		for _, j := range []int{i, (i + 1) % len(textures)} {
			core, rim := part{textures[j][0], hues[i][0]}, part{textures[j][1], hues[i][1]}
			classes = append(classes, objectClass{
				name: fmt.Sprintf("%s %s in %s %s", hueName(core.hue), core.texture, hueName(rim.hue), rim.texture), core: core, rim: rim,
			})
		}
	}
	return classes
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
func Images(n, size int, seed uint64) *datasets.Images {
	if n < 1 || size < 8 {
		panic(fmt.Sprintf("synthetic.Images: %d images of %d pixels a side, want at least 1 of at least 8", n, size))
	}
	im := &datasets.Images{
		Name: "synthetic", Height: size, Width: size,
		Pixels: make([]uint8, n*size*size*3), Labels: make([]int32, n),
	}
	for _, class := range imageClasses {
		im.Classes = append(im.Classes, class.name)
	}
	var workers errgroup.Group
	workers.SetLimit(runtime.GOMAXPROCS(0))
	for i := range n {
		im.Labels[i] = int32(i % len(imageClasses))
		workers.Go(func() error {
			return panics.Catch(func() error {
				drawObject(im.At(i), size, imageClasses[im.Labels[i]], imageRNG(seed, i))
				return nil
			})
		})
	}
	if err := workers.Wait(); err != nil {
		panic(err) // Here the caller can recover it.
	}
	im.Identify(fmt.Sprintf("synthetic (seed %d)", seed))
	return im
}

// imageRNG returns the random numbers of one image.
func imageRNG(seed uint64, image int) *rand.Rand {
	return rand.New(rand.NewPCG(seed, uint64(image)))
}

func drawObject(pixels []uint8, size int, class objectClass, rng *rand.Rand) {
	s := newObjectScene(class, rng)
	sample(pixels, size, imageSize, s.colour, rng)
}

// sample draws a square of the given extent into size×size pixels, with a little noise.
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

func newObjectScene(class objectClass, rng *rand.Rand) *scene {
	between := func(low, high float64) float64 { return low + (high-low)*rng.Float64() }
	s := &scene{background: newPattern(part{texture(rng.IntN(int(numTextures))), rng.Float64()}, between(0.2, 0.8), rng)}
	s.objects = []object{newObject(class, imageSize, 8, 12.5, rng)}
	for range 3 + rng.IntN(5) {
		// Blobs have the colours of parts of this or another class.
		c := imageClasses[rng.IntN(len(imageClasses))].core
		s.blobs = append(s.blobs, blob{
			x: between(0, imageSize), y: between(0, imageSize), radius: between(1.5, 4),
			colour: fromHSV(c.hue+between(-0.05, 0.05), between(0.4, 1), between(0.4, 0.95)),
		})
	}
	return s
}
