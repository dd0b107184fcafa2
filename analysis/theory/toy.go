package theory

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"
)

// Toy generates inputs as in the paper's intuition (section "Intuitive Comprehension"): an image is a ring of parts, some of which its class shares,
// and a view shows an arc of the ring.
type Toy struct {
	// Classes is K, Images n per class, Views m per image.
	Classes, Images, Views int
	// Parts is the number of parts of an image, and Size the length p of the vector that describes a part's appearance.
	Parts, Size int
	// Shared is the share of parts that all images of a class have in common, in [0, 1]. They are neighbours on the ring, starting at a different
	// place in each image. The other parts are the image's own.
	Shared float64
	// Crop is the share of parts that a view shows, in (0, 1]. Each view draws its own arc: at 1 there is no crop, and the smaller it is, the less
	// two views of an image overlap.
	Crop float64
	// SameCrop gives all views of an image the same arc, at a random position.
	SameCrop bool
	// Noise is the standard deviation of the noise in each number of each view's input, which makes all views different.
	Noise float64
	// Seed determines everything.
	Seed uint64
}

// DefaultToy is a small toy in which classes can come together: half of the parts are shared, and a view shows a quarter.
func DefaultToy() Toy {
	return Toy{Classes: 3, Images: 6, Views: 4, Parts: 8, Size: 16, Shared: 0.5, Crop: 0.25, Noise: 0.02, Seed: 1}
}

// Problem is OP1 of the toy's inputs with the constant φ_f: on the unit sphere of as many dimensions as classes, with the largest α of the paper's lemmas,
// 1/4, and two starts.
func (t Toy) Problem(lipschitz float64) (OP1, error) {
	inputs, err := t.Inputs()
	return OP1{
		Inputs: inputs, Classes: t.Classes, Images: t.Images, Views: t.Views,
		Dim: t.Classes, Radius: 1, Alpha: 0.25, Lipschitz: lipschitz, Starts: 2,
	}, err
}

// Inputs are the views, [K·n·m, p], class by class, image by image, view by view. A view is the mean of the parts shown, since it shows what a part
// looks like and not where it is, plus noise. Parts are random vectors of length 1. The error names the number that is out of range.
func (t Toy) Inputs() (*mat.Dense, error) {
	switch {
	case t.Classes < 2 || t.Images < 1 || t.Views < 1 || t.Parts < 1 || t.Size < 1:
		return nil, fmt.Errorf("toy: %d classes (at least 2), %d images, %d views, %d parts and size %d must be positive",
			t.Classes, t.Images, t.Views, t.Parts, t.Size)
	case !(t.Shared >= 0 && t.Shared <= 1) || !(t.Crop > 0 && t.Crop <= 1) || !(t.Noise >= 0):
		return nil, fmt.Errorf("toy: shared %g must be in [0, 1], crop %g in (0, 1], and noise %g not negative", t.Shared, t.Crop, t.Noise)
	}
	// Classes, images and views draw from separate sources, so that changing one number leaves the rest as it was.
	source := func(purpose uint64) *rand.Rand { return rand.New(rand.NewPCG(t.Seed, purpose)) }
	classes, images, places, crops, noise := source(1), source(2), source(3), source(4), source(5)
	part := func(random *rand.Rand) []float64 {
		v := make([]float64, t.Size)
		for i := range v {
			v[i] = random.NormFloat64()
		}
		length := math.Sqrt(dot(v, v))
		for i := range v {
			v[i] /= length
		}
		return v
	}
	shared := int(math.Round(t.Shared * float64(t.Parts)))
	shown := max(1, int(math.Round(t.Crop*float64(t.Parts))))
	inputs := mat.NewDense(t.Classes*t.Images*t.Views, t.Size, nil)
	for k := range t.Classes {
		common := part(classes)
		for a := range t.Images {
			ring := make([][]float64, t.Parts)
			place := places.IntN(t.Parts)
			for i := range ring {
				ring[(place+i)%t.Parts] = part(images)
				if i < shared {
					ring[(place+i)%t.Parts] = common
				}
			}
			stretch := crops.IntN(t.Parts)
			for v := range t.Views {
				if v > 0 && !t.SameCrop {
					stretch = crops.IntN(t.Parts)
				}
				row := inputs.RawRowView((k*t.Images+a)*t.Views + v)
				for c := range row {
					for i := range shown {
						row[c] += ring[(stretch+i)%t.Parts][c] / float64(shown)
					}
					row[c] += t.Noise * noise.NormFloat64()
				}
			}
		}
	}
	return inputs, nil
}
