package synthetic

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/rle"
	"github.com/semcon/semcon/sccore/settings"
)

// Set is a set of synthetic images with masks. A mask is [Len, Height, Width], and 0 where there is no object.
type Set struct {
	*datasets.Images // A label is the class of the object in front.

	ClassMask    []uint8 // 1 + the class.
	InstanceMask []uint8 // The objects of an image, numbered from 1, from front to back.
	PartMask     []uint8 // 1 + the part. Class c has part 2c, its core, and part 2c+1, its rim.
}

// several is the kind of [Scenes], with two or three objects, which [Objects] shows alone. Its six classes have two parts each. Each of the twelve parts has its own
// hue and shares its texture with one or two others. The two hues of a class are a quarter of a turn apart: as in natural images, the mean colour of an
// object then says something about its class, which opposite hues would cancel. The two textures differ.
var several = func() kind {
	const count = 6
	var classes []objectClass
	for c := range count {
		newPart := func(family, hue int) part {
			return part{stripes + texture(family%int(numTextures-1)), float64(hue%(2*count)) / (2 * count)}
		}
		classes = append(classes, objectClass{fmt.Sprintf("class %d", c), newPart(c, 2*c), newPart(c+1, 2*c+3)})
	}
	return kind{
		"synthetic scenes", 64, classes, 16, 24, 4, 3, 8,
		func(rng *rand.Rand) float64 {
			class := classes[rng.IntN(count)]
			return []part{class.core, class.rim}[rng.IntN(2)].hue
		},
		func(rng *rand.Rand) float64 { return 0.03 * rng.NormFloat64() },
		func(_ int, rng *rand.Rand) []int {
			return lo.Times(2+rng.IntN(2), func(int) int { return rng.IntN(count) })
		},
	}
}()

// Scenes draws n scene-centric images of size×size pixels: two or three objects of six classes, which may occlude each other, on a textured
// background with blobs in the colours of parts. [Objects] draws object-centric images of the same classes.
//
// The same arguments always give the same bytes, and the first images do not depend on n. Different seeds give different samples of the
// same classes. Both functions panic unless n ≥ 1 and size ≥ 8.
func Scenes(n, size int, seed uint64) *Set { return several.set(n, size, seed) }

// Objects draws n object-centric images with one object each, of the classes of [Scenes] in turn.
func Objects(n, size int, seed uint64) *Set {
	alone := several
	alone.name, alone.choose = "synthetic objects", func(i int, _ *rand.Rand) []int { return []int{i % len(several.classes)} }
	return alone.set(n, size, seed)
}

func (k kind) set(n, size int, seed uint64) *Set {
	area := max(n, 0) * size * size
	s := &Set{ClassMask: make([]uint8, area), InstanceMask: make([]uint8, area), PartMask: make([]uint8, area)}
	s.Images = k.draw(n, size, seed, func(i int, drawn *scene, classes []int) {
		drawn.eachPixel(size, k.extent, func(p, instance int, in region) {
			class, p := classes[instance-1], i*size*size+p
			s.InstanceMask[p], s.ClassMask[p], s.PartMask[p] = uint8(instance), uint8(class+1), uint8(2*class+int(in))
		})
	})
	return s
}

// eachPixel passes the pixels of size×size that show an object to mark, with the object, from 1, and its region.
func (s *scene) eachPixel(size int, extent float64, mark func(pixel, instance int, in region)) {
	step := extent / float64(size)
	for p := range size * size {
		if instance, in, _ := s.at((float64(p%size)+0.5)*step, (float64(p/size)+0.5)*step); instance > 0 {
			mark(p, instance, in)
		}
	}
}

// MaxSize is the largest height and width of drawn scenes and objects in pixels. Encoders of small images have patches of 8 pixels, which then are a thousand.
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

// Segmentation is the set as a segmentation dataset. Class 0 is "background", the classes of objects follow, and no pixel is ignored.
func (scenes *Set) Segmentation() *datasets.Segmentation {
	n, size := scenes.Len(), scenes.Width
	classes := append([]string{"background"}, scenes.Classes...)
	return datasets.NewSegmentation(scenes.Name, classes, scenes.Identity, n, func(i int) (*datasets.SegmentedImage, error) {
		area := size * size
		return &datasets.SegmentedImage{Height: size, Width: size, Pixels: scenes.At(i), Mask: scenes.ClassMask[i*area : (i+1)*area : (i+1)*area]}, nil
	})
}

// Instances is the set as an object-detection dataset: each object that is seen is annotated with the mask of what is seen of it and the box around that.
func (scenes *Set) Instances() *datasets.ObjectImages {
	n, size := scenes.Len(), scenes.Width
	categories := lo.Map(scenes.Classes, func(name string, i int) datasets.ObjectCategory {
		return datasets.ObjectCategory{ID: int64(i + 1), Name: name}
	})
	var images []datasets.InstanceImage
	var annotations []datasets.Annotation
	area := size * size
	inside := make([]bool, area)
	for i := range n {
		images = append(images, datasets.InstanceImage{ID: int64(i + 1), FileName: fmt.Sprintf("scene%d", i), Height: size, Width: size})
		class := map[uint8]uint8{} // By object.
		objects := scenes.InstanceMask[i*area:][:area]
		for p, object := range objects {
			class[object] = scenes.ClassMask[i*area+p]
		}
		for object := uint8(1); int(object) <= maxObjects; object++ {
			if class[object] == 0 {
				continue // It is hidden.
			}
			for p := range inside {
				inside[p] = objects[p] == object
			}
			mask, err := rle.Encode(size, size, inside)
			if err != nil {
				panic(err) // The size fits.
			}
			annotations = append(annotations, datasets.Annotation{
				ID: int64(len(annotations) + 1), Image: int64(i + 1), Category: int64(class[object]), Box: mask.Box(), Area: float64(mask.Area()),
				Mask: datasets.InstanceMask{Size: datasets.Size{Height: size, Width: size}, Text: mask.String()},
			})
		}
	}
	truth := datasets.NewInstances(scenes.Name, images, categories, annotations)
	return datasets.NewObjectImages(scenes.Name, scenes.Identity, truth, func(i int) (*datasets.SegmentedImage, error) {
		return &datasets.SegmentedImage{Name: images[i].FileName, Height: size, Width: size, Pixels: scenes.At(i)}, nil
	})
}

// maxObjects is the most objects in a scene.
const maxObjects = 3

// Run is a run of an experiment that draws its own images, so that the spread over runs includes the spread over images. The sets of a run have numbers, which
// differ for training and testing.
//
// Identities are the same for all runs, which makes their numbers comparable: they name the set, and the digest of the first images of run 0 instead of
// a seed. With the number of the run, they tell the images.
type Run int

// seed returns the seed of a set of the run. In run 0 it is the set's number.
func (r Run) seed(set int) uint64 { return uint64(set) + 1000*uint64(r) }

// Images is [Images] for a run.
func (r Run) Images(n, size, set int) *datasets.Images {
	im := Images(n, size, r.seed(set))
	im.Identity = ofRuns(set, n, func(first int) string { return Images(first, size, Run(0).seed(set)).Identity })
	return im
}

// Objects is [Objects] for a run.
func (r Run) Objects(n, size, set int) *Set { return r.set(Objects, n, size, set) }

// Scenes is [Scenes] for a run.
func (r Run) Scenes(n, size, set int) *Set { return r.set(Scenes, n, size, set) }

// Videos is [Videos] for a run.
func (r Run) Videos(n, frames, size, set int) *datasets.Videos {
	videos := Videos(n, frames, size, r.seed(set))
	videos.Identity = strings.Replace(videos.Identity, fmt.Sprintf("(seed %d)", r.seed(set)), fmt.Sprintf("(set %d, drawn for each seed)", set), 1)
	return videos
}

func (r Run) set(draw func(n, size int, seed uint64) *Set, n, size, set int) *Set {
	s := draw(n, size, r.seed(set))
	s.Identity = ofRuns(set, n, func(first int) string { return draw(first, size, Run(0).seed(set)).Identity })
	return s
}

// ofRuns is the identity of n images of a set in any run. identity describes the first images of the set in run 0.
func ofRuns(set, n int, identity func(first int) string) string {
	first := min(n, 4)
	return strings.NewReplacer(
		fmt.Sprintf("(seed %d): %d images", Run(0).seed(set), first), fmt.Sprintf("(set %d, drawn for each seed): %d images", set, n),
	).Replace(identity(first)) + fmt.Sprintf(" of the first %d of seed 0", first)
}

// Videos draws n videos with frames of size×size pixels. Two or three objects of the classes of [Scenes] drift and turn in front of a still
// background, bounce off the edges, and may occlude each other. Objects are numbered from front to back.
//
// The same arguments always give the same bytes, and the first videos and frames do not depend on n and frames. Videos panics unless n ≥ 1,
// frames ≥ 2 and size ≥ 8.
func Videos(n, frames, size int, seed uint64) *datasets.Videos {
	if n < 1 || frames < 2 || size < 8 {
		panic(fmt.Sprintf("synthetic.Videos: %d videos of %d frames of %d pixels a side, want at least 1 of 2 of 8", n, frames, size))
	}
	set := &datasets.Videos{
		Name:     "synthetic videos",
		Identity: fmt.Sprintf("synthetic videos (seed %d): %d of %d frames %d×%d", seed, n, frames, size, size),
	}
	for i := range n {
		moving := newMovingScene(seed, i)
		frame := func(t int) ([]uint8, error) {
			pixels := make([]uint8, size*size*3)
			sample(pixels, size, several.extent, moving.at(t).colour, rand.New(rand.NewPCG(seed, uint64(i)<<32|uint64(t)+1)))
			return pixels, nil
		}
		mask := func(t int) ([]uint8, error) {
			mask := make([]uint8, size*size)
			moving.at(t).eachPixel(size, several.extent, func(p, instance int, _ region) { mask[p] = uint8(instance) })
			return mask, nil
		}
		set.All = append(set.All, datasets.Video{
			Name: fmt.Sprintf("video%d", i), Frames: frames, Size: datasets.Size{Height: size, Width: size}, Frame: frame, Mask: mask,
		})
	}
	return set
}

// movingScene is a scene with moving objects.
type movingScene struct {
	start   *scene
	motions []motion
}

// motion is the movement of an object from one frame to the next, in radians and in pixels of the scene's own size.
type motion struct{ dx, dy, turn float64 }

func newMovingScene(seed uint64, i int) movingScene {
	rng := rand.New(rand.NewPCG(seed, uint64(i)<<32))
	classes := several.choose(i, rng)
	f := movingScene{start: several.scene(classes, rng)}
	for range classes {
		sin, cos := math.Sincos(2 * math.Pi * rng.Float64())
		speed := 0.7 + 0.8*rng.Float64()
		f.motions = append(f.motions, motion{speed * cos, speed * sin, 0.12 * (rng.Float64() - 0.5)})
	}
	return f
}

// at returns the scene t frames after the start.
func (f movingScene) at(t int) *scene {
	still := &scene{background: f.start.background, blobs: f.start.blobs}
	for i, o := range f.start.objects {
		m, frames := f.motions[i], float64(t)
		o.x, o.y = bounce(o.x+m.dx*frames, o.radius-2), bounce(o.y+m.dy*frames, o.radius-2)
		sin, cos := math.Sincos(m.turn * frames)
		o.sin, o.cos = o.sin*cos+o.cos*sin, o.cos*cos-o.sin*sin
		still.objects = append(still.objects, o)
	}
	return still
}

// bounce returns the position of a point that moves between walls at margin and the other end − margin.
func bounce(x, margin float64) float64 {
	span := several.extent - 2*margin
	phase := math.Mod(math.Mod(x-margin, 2*span)+2*span, 2*span)
	return margin + min(phase, 2*span-phase)
}
