package sccore

import (
	"math/rand/v2"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/train"
	"github.com/semcon/semcon/sccore/views"
)

const (
	inPixels    = "pixels"    // Images, positives last, [images + positives, size, size, 3] of bytes.
	inGlobals   = "globals"   // Parameters of the global views, [globals·images, NumParams].
	inLocals    = "locals"    // Parameters of the local views.
	inPositives = "positives" // Parameters of one view of each positive, [positives, NumParams].
	inPartners  = "partners"  // The partner x' of each image x, [images].
	inLabels    = "labels"    // Label maps, [images, size, size] of bytes.
	inNoiseKey  = "noise key" // The key that label noise is drawn from.
	inImages    = "images"    // The numbers of the images, [images].
	// Label maps that correspondences from labels are made of, if they are not inLabels.
	inTeacherLabels = "teacher labels"
	inScheduled     = "scheduled" // Learning rate, weight decay, β, the five λ, and the share of noise.
)

// inputs lists the inputs of the step.
func (s step) inputs() (all []train.Input) {
	images, positives := s.images(), s.positives()
	add := func(needed bool, name string, dtype dtypes.DType, dims ...int) {
		if needed {
			all = append(all, train.Input{Name: name, Shape: shapes.Make(dtype, dims...), Divided: name != inNoiseKey && name != inScheduled})
		}
	}
	add(true, inPixels, dtypes.Uint8, images+positives, s.ImageSize, s.ImageSize, 3)
	add(true, inGlobals, dtypes.Float32, s.Views.Globals*images, views.NumParams)
	add(s.Views.Locals > 0, inLocals, dtypes.Float32, s.Views.Locals*images, views.NumParams)
	add(positives > 0, inPositives, dtypes.Float32, positives, views.NumParams)
	add(s.Lambdas.PatchConcentration > 0 || s.paired, inPartners, dtypes.Int32, images)
	add(s.labelled, inLabels, dtypes.Uint8, images, s.ImageSize, s.ImageSize)
	add(s.fromLabels() && s.taught, inTeacherLabels, dtypes.Uint8, images, s.ImageSize, s.ImageSize)
	add(s.fromLabels() && s.Correspondences.Fixed, inImages, dtypes.Int32, images)
	add(s.fromLabels() && !s.Correspondences.Fixed, inNoiseKey, dtypes.Uint32)
	add(true, inScheduled, dtypes.Float32, 9)
	return all
}

// inputs builds a step's inputs from a batch or a part of one.
func (o *Objective) inputs(s step, batch *datasets.Batch, seed uint64, scheduled []float32) ([]any, error) {
	images := s.images()
	draws, size := batch.Step, o.config.ImageSize*o.config.ImageSize
	// Without a loss of patches the scenes, which lie between objects and positives, are left out.
	first := batch.Objects + batch.Scenes
	pixels := batch.Pixels
	if images != first {
		pixels = slices.Concat(pixels[:images*size*3], pixels[first*size*3:])
	}
	named := map[string]any{
		inPixels:    train.Bytes{Values: pixels, Dimensions: []int{images + s.positives(), o.config.ImageSize, o.config.ImageSize, 3}},
		inScheduled: scheduled,
	}
	globals, locals := o.config.Views.Draw(seed, draws, batch.Images[:images], batch.Sizes[:images])
	named[inGlobals], named[inLocals] = globals, locals
	if s.positives() > 0 {
		// Positives take their second view: the first view of a positive that is itself in the batch is the online branch's.
		theirs := o.config.Views
		theirs.Locals = 0
		all, _ := theirs.Draw(seed, draws, batch.Images[first:], batch.Sizes[first:])
		flat := tensors.MustCopyFlatData[float32](all)
		row := len(flat) / (theirs.Globals * s.positives())
		named[inPositives] = tensors.FromFlatDataAndDimensions(flat[s.positives()*row:2*s.positives()*row], s.positives(), row)
	}
	if s.Lambdas.PatchConcentration > 0 || s.paired {
		named[inPartners] = partners(seed, draws, images)
	}
	maps := map[string]func(image int32, labels []uint8, size int) error{}
	if s.labelled {
		maps[inLabels] = o.data.Labels
	}
	if s.taught {
		maps[inTeacherLabels] = o.data.TeacherLabels
	}
	for name, read := range maps {
		labels := make([]uint8, images*size)
		for i := range images {
			if err := read(batch.Images[i], labels[i*size:(i+1)*size], o.config.ImageSize); err != nil {
				return nil, err
			}
		}
		named[name] = tensors.FromFlatDataAndDimensions(labels, images, o.config.ImageSize, o.config.ImageSize)
	}
	if s.fromLabels() {
		named[inImages] = slices.Clone(batch.Images[:images])
		named[inNoiseKey] = rand.New(rand.NewPCG(seed, uint64(draws))).Uint32()
	}
	return train.InOrder(s.inputs(), named), nil
}

// partners draws another image for each of n images, the paper's x': a cycle through all of them in random order.
func partners(seed uint64, step, n int) []int32 {
	order := rand.New(rand.NewPCG(seed, uint64(step)+1<<63)).Perm(n)
	drawn := make([]int32, n)
	for i, image := range order {
		drawn[image] = int32(order[(i+1)%n])
	}
	return drawn
}
