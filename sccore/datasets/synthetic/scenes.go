package synthetic

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"

	"github.com/semcon/semcon/internal/panics"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/settings"
	"golang.org/x/sync/errgroup"
)

// Set is a set of synthetic images with masks. A mask is [Len, Height, Width], and 0 where there is no object.
type Set struct {
	*datasets.Images // A label is the class of the object in front.

	ClassMask    []uint8 // 1 + the class.
	InstanceMask []uint8 // The objects of an image, numbered from 1, from front to back.
	PartMask     []uint8 // 1 + the part. Class c has part 2c, its core, and part 2c+1, its rim.
}

// sceneSize is the size in pixels at which scenes are defined; they are sampled at other sizes.
const sceneSize = 64

// sceneClasses lists six classes of two parts. Each of the twelve parts has its own hue and shares its texture with one or two others. The
// two hues of a class are a quarter of a turn apart: as in natural images, the mean colour of an object then says something about its
// class, which opposite hues would cancel. The two textures differ.
var sceneClasses = func() (classes []objectClass) {
	const count = 6
	for c := range count {
		newPart := func(family, hue int) part {
			return part{stripes + texture(family%int(numTextures-1)), float64(hue%(2*count)) / (2 * count)}
		}
		classes = append(classes, objectClass{fmt.Sprintf("class %d", c), newPart(c, 2*c), newPart(c+1, 2*c+3)})
	}
	return classes
}()

// Scenes draws n scene-centric images of size×size pixels: two or three objects of six classes, which may occlude each other, on a textured
// background with blobs in the colours of parts. [Objects] draws object-centric images of the same classes.
//
// The same arguments always give the same bytes, and the first images do not depend on n. Different seeds give different samples of the
// same classes. Both functions panic unless n ≥ 1 and size ≥ 8.
func Scenes(n, size int, seed uint64) *Set {
	return drawScenes("synthetic scenes", n, size, seed, func(_ int, rng *rand.Rand) (classes []int) {
		for range 2 + rng.IntN(2) {
			classes = append(classes, rng.IntN(len(sceneClasses)))
		}
		return classes
	})
}

// Objects draws n object-centric images with one object each, of the classes of [Scenes] in turn.
func Objects(n, size int, seed uint64) *Set {
	return drawScenes("synthetic objects", n, size, seed, func(i int, _ *rand.Rand) []int { return []int{i % len(sceneClasses)} })
}

func drawScenes(name string, n, size int, seed uint64, classes func(i int, rng *rand.Rand) []int) *Set {
	if n < 1 || size < 8 {
		panic(fmt.Sprintf("synthetic: %d %s of %d pixels a side, want at least 1 of at least 8", n, name, size))
	}
	area := size * size
	s := &Set{
		Images:    &datasets.Images{Name: name, Height: size, Width: size, Pixels: make([]uint8, n*area*3), Labels: make([]int32, n)},
		ClassMask: make([]uint8, n*area), InstanceMask: make([]uint8, n*area), PartMask: make([]uint8, n*area),
	}
	for _, class := range sceneClasses {
		s.Classes = append(s.Classes, class.name)
	}
	var workers errgroup.Group
	workers.SetLimit(runtime.GOMAXPROCS(0))
	for i := range n {
		workers.Go(func() error {
			return panics.Catch(func() error {
				rng := imageRNG(seed, i)
				classes := classes(i, rng)
				drawn := newObjectsScene(classes, rng)
				s.Labels[i] = int32(classes[0])
				sample(s.At(i), size, sceneSize, drawn.colour, rng)
				for p := range area {
					step := float64(sceneSize) / float64(size)
					instance, in, _ := drawn.at((float64(p%size)+0.5)*step, (float64(p/size)+0.5)*step)
					if instance == 0 {
						continue
					}
					class := classes[instance-1]
					s.InstanceMask[i*area+p] = uint8(instance)
					s.ClassMask[i*area+p] = uint8(class + 1)
					s.PartMask[i*area+p] = uint8(2*class + int(in))
				}
				return nil
			})
		})
	}
	if err := workers.Wait(); err != nil {
		panic(err) // Here the caller can recover it.
	}
	s.Identify(fmt.Sprintf("%s (seed %d)", name, seed))
	return s
}

// newObjectsScene draws a scene with objects of the given classes, from front to back.
func newObjectsScene(classes []int, rng *rand.Rand) *scene {
	const smallest, largest = 16, 24
	between := func(low, high float64) float64 { return low + (high-low)*rng.Float64() }
	s := &scene{background: newPattern(part{texture(rng.IntN(int(numTextures))), rng.Float64()}, between(0.2, 0.8), rng)}
	for _, class := range classes {
		// Up to ten places are tried until one is clear of the objects in front, so that few objects are hidden.
		var o object
		for range 10 {
			o = newObject(sceneClasses[class], sceneSize, smallest, largest, rng)
			if s.clear(o.x, o.y, largest) {
				break
			}
		}
		s.objects = append(s.objects, o)
	}
	for range 4 + rng.IntN(5) {
		class := sceneClasses[rng.IntN(len(sceneClasses))]
		hue := []part{class.core, class.rim}[rng.IntN(2)].hue
		s.blobs = append(s.blobs, blob{
			x: between(0, sceneSize), y: between(0, sceneSize), radius: between(3, 8),
			colour: fromHSV(hue+0.03*rng.NormFloat64(), between(0.4, 1), between(0.4, 0.95)),
		})
	}
	return s
}

// clear reports whether all objects' centres are at least the distance away from a point.
func (s *scene) clear(x, y, distance float64) bool {
	for _, o := range s.objects {
		if math.Hypot(o.x-x, o.y-y) < distance {
			return false
		}
	}
	return true
}

// MaxSize is the largest height and width of drawn scenes and objects in pixels. Encoders of small images have patches of 8 pixels, which then are a
// thousand.
const MaxSize = 256

// Check returns an error that names the number of images or their size, in the words of an experiment's settings, if [Scenes] or [Objects] cannot draw
// them, or if the features of all their patches do not fit in memory.
func Check(images string, n int, size string, side int) error {
	const bytesOfPixel = 48 // Features of the widest encoder, 768 numbers for 8×8 pixels.
	return cmp.Or(
		settings.Between(size, side, 8, MaxSize), settings.Between(images, n, 1, math.MaxInt32),
		settings.Fit(settings.MaxBytes, fmt.Sprintf("%s %d of %s %d", images, n, size, side), n, side, side, bytesOfPixel),
	)
}
