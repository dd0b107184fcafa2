package sccore

import (
	"math/rand/v2"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
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

// input is an input of the compiled step.
type input struct {
	name  string
	shape shapes.Shape
}

// inputs lists the inputs of the step.
func (s step) inputs() []input {
	images, positives := s.images(), s.positives()
	all := []input{
		{inPixels, shapes.Make(dtypes.Uint8, images+positives, s.ImageSize, s.ImageSize, 3)},
		{inGlobals, shapes.Make(dtypes.Float32, s.Views.Globals*images, views.NumParams)},
	}
	if s.Views.Locals > 0 {
		all = append(all, input{inLocals, shapes.Make(dtypes.Float32, s.Views.Locals*images, views.NumParams)})
	}
	if positives > 0 {
		all = append(all, input{inPositives, shapes.Make(dtypes.Float32, positives, views.NumParams)})
	}
	if s.Lambdas.PatchConcentration > 0 || s.paired {
		all = append(all, input{inPartners, shapes.Make(dtypes.Int32, images)})
	}
	if s.labelled {
		all = append(all, input{inLabels, shapes.Make(dtypes.Uint8, images, s.ImageSize, s.ImageSize)})
	}
	if s.fromLabels() {
		if s.taught {
			all = append(all, input{inTeacherLabels, shapes.Make(dtypes.Uint8, images, s.ImageSize, s.ImageSize)})
		}
		if s.Correspondences.Fixed {
			all = append(all, input{inImages, shapes.Make(dtypes.Int32, images)})
		} else {
			all = append(all, input{inNoiseKey, shapes.Make(dtypes.Uint32)})
		}
	}
	return append(all, input{inScheduled, shapes.Make(dtypes.Float32, 9)})
}

// taken are the inputs as package train takes them.
func (s step) taken() (all []train.Input) {
	for _, in := range s.inputs() {
		all = append(all, train.Input{Shape: in.shape, Divided: in.name != inNoiseKey && in.name != inScheduled})
	}
	return all
}

// named returns the nodes of the step's inputs by name.
func (s step) named(inputs []*Node) map[string]*Node {
	named := map[string]*Node{}
	for i, in := range s.inputs() {
		named[in.name] = inputs[i]
	}
	return named
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
		inPixels:    tensors.FromFlatDataAndDimensions(pixels, images+s.positives(), o.config.ImageSize, o.config.ImageSize, 3),
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
	var inputs []any
	for _, in := range s.inputs() {
		inputs = append(inputs, named[in.name])
	}
	return inputs, nil
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
