package synthetic

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/semcon/semcon/sccore/datasets"
)

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
			sample(pixels, size, sceneSize, moving.at(t).colour, rand.New(rand.NewPCG(seed, uint64(i)<<32|uint64(t)+1)))
			return pixels, nil
		}
		mask := func(t int) ([]uint8, error) {
			mask := make([]uint8, size*size)
			moving.at(t).eachPixel(size, func(p, instance int, _ region) { mask[p] = uint8(instance) })
			return mask, nil
		}
		set.All = append(set.All, datasets.NewVideo(fmt.Sprintf("video%d", i), frames, datasets.Size{Height: size, Width: size}, frame, mask))
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
	classes := someClasses(rng)
	f := movingScene{start: newObjectsScene(classes, rng)}
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

// bounce returns the position of a point that moves between walls at margin and sceneSize − margin.
func bounce(x, margin float64) float64 {
	span := sceneSize - 2*margin
	phase := math.Mod(math.Mod(x-margin, 2*span)+2*span, 2*span)
	return margin + min(phase, 2*span-phase)
}
