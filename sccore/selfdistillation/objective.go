package selfdistillation

import (
	"context"
	"iter"
	"math/rand/v2"

	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/model/initializer"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/train"
)

// Data are the images that a run trains on: object-centric images, scenes, or half a batch of each. The methods treat both alike.
type Data struct {
	Objects, Scenes datasets.Source
	Workers         int             // Images decoded in parallel; 0 for one per processor. It changes nothing else.
	Broken          datasets.Broken // What to do about an image that cannot be read.
}

// objective is a method as package train takes it: the graph of its step, and the batches.
type objective struct {
	config  Config // The current run's; the step is compiled for a configuration of the same shape.
	data    Data
	step    step
	skipped func(datasets.Skipped)
}

func newObjective(data Data, config Config) (*objective, error) {
	if err := config.Check(); err != nil {
		return nil, err
	}
	o := &objective{config: config, data: data, skipped: func(datasets.Skipped) {}, step: step{Config: config, vit: config.vit()}}
	return o, o.loader(0).Check()
}

// loader reads a run's batches, one per step.
func (o *objective) loader(seed uint64) datasets.Loader {
	return datasets.Loader{
		Objects: o.data.Objects, Scenes: o.data.Scenes, BatchSize: o.config.Batch, ImageSize: o.config.ImageSize,
		Seed: seed, Workers: o.data.Workers, Broken: o.data.Broken,
	}
}

// task is what package train trains.
func (o *objective) task() train.Task[StepMetrics] {
	return train.Task[StepMetrics]{
		Steps: func() int { return o.config.Steps }, Inputs: o.step.inputs(), Ahead: true, Batches: o.batches,
		Schedule: func(step int) []float32 { return o.config.scheduled(step) },
		Learnt:   onlineScope, Loss: o.step.loss, Update: o.step.update, Initialize: initialize,
		Config: func() any { return o.config },
		Describe: func(m *StepMetrics, step int) {
			m.Step, m.LearningRate = step+1, float64(o.config.scheduled(step)[0])
		},
		Workload: train.Workload{Images: o.config.Batch},
	}
}

// initialize gives both branches the same initial values.
func initialize(store *model.Store, seed uint64) error {
	if err := train.Initialize(store, seed, "/"+targetScope); err != nil {
		return err
	}
	return train.CopyScope(store, "/"+onlineScope, "/"+targetScope)
}

// batches reads the batches of a run and draws their views, masks and dropped paths.
func (o *objective) batches(ctx context.Context, seed uint64, from int) iter.Seq2[train.Batch, error] {
	return train.Prepared(o.loader(seed).Batches(ctx, from), func(batch *datasets.Batch) (train.Batch, error) {
		return train.Batch{Inputs: o.prepare(batch, seed), Taken: func() {
			for _, skipped := range batch.Skipped {
				o.skipped(skipped)
			}
		}}, nil
	})
}

// prepare makes the inputs of a batch, without the scheduled ones.
func (o *objective) prepare(batch *datasets.Batch, seed uint64) []any {
	c, s := o.config, o.step
	globals, locals := c.Views.Draw(seed, batch.Step, batch.Images, batch.Sizes)
	inputs := []any{tensors.FromFlatDataAndDimensions(batch.Pixels, c.Batch, c.ImageSize, c.ImageSize, 3), globals}
	if locals != nil {
		inputs = append(inputs, locals)
	}
	if c.Method == IBOT {
		inputs = append(inputs, c.masks().Draw(seed, batch.Step, batch.Images, c.Views.Globals, s.side(), s.side()))
	}
	if c.DropPath > 0 {
		random := rand.New(rand.NewPCG(seed, uint64(batch.Step)+1<<62))
		for _, count := range []int{c.Views.Globals, c.Views.Locals} {
			if count > 0 {
				factors := encoder.DropPaths(random, c.DropPath, s.vit.Depth, count*c.Batch)
				inputs = append(inputs, tensors.FromFlatDataAndDimensions(factors, s.vit.Depth, 2, count*c.Batch))
			}
		}
	}
	return inputs
}

// queueOf is a variable of rows of Euclidean norm 1, which start in random directions.
func queueOf(scope *model.Scope, name string, shape shapes.Shape) *model.Variable {
	normal := initializer.RandomNormalFn(scope, 1)
	directions := func(g *Graph, shape shapes.Shape) *Node { return losses.Unit(normal(g, shape)) }
	return scope.WithInitializer(directions).VariableWithShape(name, shape).SetTrainable(false)
}
