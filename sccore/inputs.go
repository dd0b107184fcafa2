package sccore

import (
	"math/rand/v2"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/views"
)

// The inputs of a step, by name.
const (
	inPixels    = "pixels"    // Images, positives last, [images + positives, canvas, canvas, 3] of bytes.
	inGlobals   = "globals"   // Parameters of global views, [globals·images, NumParams].
	inLocals    = "locals"    // Of local views.
	inPositives = "positives" // Of a view of each positive, [positives, NumParams].
	inPartners  = "partners"  // The image x' of each image x, [images].
	inLabels    = "labels"    // Label maps, [images, canvas, canvas] of bytes.
	inNoiseKey  = "noise key" // What the noise of labels is drawn from.
	inScheduled = "scheduled" // Rate, decay, β, the five λ, and the share of noise.
)

// input is an input of the compiled step.
type input struct {
	name  string
	shape shapes.Shape
}

// inputs lists the inputs that the step has.
func (s step) inputs() []input {
	images, positives := s.images(), s.positives()
	all := []input{
		{inPixels, shapes.Make(dtypes.Uint8, images+positives, s.Canvas, s.Canvas, 3)},
		{inGlobals, shapes.Make(dtypes.Float32, s.Views.Globals*images, views.NumParams)},
	}
	if s.Views.Locals > 0 {
		all = append(all, input{inLocals, shapes.Make(dtypes.Float32, s.Views.Locals*images, views.NumParams)})
	}
	if positives > 0 {
		all = append(all, input{inPositives, shapes.Make(dtypes.Float32, positives, views.NumParams)})
	}
	if s.Lambdas.PatchConcentration > 0 {
		all = append(all, input{inPartners, shapes.Make(dtypes.Int32, images)})
	}
	if s.labelled {
		all = append(all, input{inLabels, shapes.Make(dtypes.Uint8, images, s.Canvas, s.Canvas)})
	}
	if s.fromLabels() {
		all = append(all, input{inNoiseKey, shapes.Make(dtypes.Uint32)})
	}
	return append(all, input{inScheduled, shapes.Make(dtypes.Float32, 9)})
}

// inputs are a step's inputs for a batch or a part of one.
func (t *Trainer) inputs(s step, batch *datasets.Batch, scheduled []float32) ([]any, error) {
	images := s.images()
	draws, size := batch.Step, t.config.Canvas*t.config.Canvas
	// Without a loss of patches the scenes, which stand between objects and positives, are left out.
	first := batch.Objects + batch.Scenes
	pixels := append(batch.Pixels[:images*size*3:images*size*3], batch.Pixels[first*size*3:]...)
	named := map[string]any{
		inPixels:    tensors.FromFlatDataAndDimensions(pixels, images+s.positives(), t.config.Canvas, t.config.Canvas, 3),
		inScheduled: scheduled,
	}
	globals, locals := t.config.Views.Draw(t.seed, draws, batch.Images[:images], batch.Extents[:images])
	named[inGlobals], named[inLocals] = globals, locals
	if s.positives() > 0 {
		// The second view, as the first one of a positive that is in the batch itself is the online branch's.
		theirs := t.config.Views
		theirs.Locals = 0
		all, _ := theirs.Draw(t.seed, draws, batch.Images[first:], batch.Extents[first:])
		flat := tensors.MustCopyFlatData[float32](all)
		row := len(flat) / (theirs.Globals * s.positives())
		named[inPositives] = tensors.FromFlatDataAndDimensions(flat[s.positives()*row:2*s.positives()*row], s.positives(), row)
	}
	if s.Lambdas.PatchConcentration > 0 {
		named[inPartners] = partners(t.seed, draws, images)
	}
	if s.labelled {
		labels := make([]uint8, images*size)
		for i := range images {
			if err := t.data.Labels(batch.Images[i], labels[i*size:(i+1)*size], t.config.Canvas); err != nil {
				return nil, err
			}
		}
		named[inLabels] = tensors.FromFlatDataAndDimensions(labels, images, t.config.Canvas, t.config.Canvas)
	}
	if s.fromLabels() {
		named[inNoiseKey] = rand.New(rand.NewPCG(t.seed, uint64(draws))).Uint32()
	}
	var inputs []any
	for _, in := range s.inputs() {
		inputs = append(inputs, named[in.name])
	}
	return inputs, nil
}

// partners draws for each of n images another one, x' of the paper: a cycle through all of them in a random order.
func partners(seed uint64, step, n int) []int32 {
	order := rand.New(rand.NewPCG(seed, uint64(step)+1<<63)).Perm(n)
	drawn := make([]int32, n)
	for i, image := range order {
		drawn[image] = int32(order[(i+1)%n])
	}
	return drawn
}
