package selfdistillation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/model/initializer"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore/datasets"
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
	reports []int // The places of the graph's outputs in StepMetrics.
	given   []any // The inputs of the step that runs.
	batches datasets.Ahead[prepared]
	device  compute.Backend // Where batches are uploaded to ahead; nil leaves that to the step.
}

// prepared are the inputs of a step, without the scheduled ones.
type prepared struct {
	inputs  []any
	skipped []datasets.Skipped
}

func newObjective(data Data, config Config) (*objective, error) {
	if err := config.Check(); err != nil {
		return nil, err
	}
	o := &objective{config: config, data: data, step: step{Config: config, vit: config.vit()}}
	return o, o.loader(0).Check()
}

// loader reads a run's batches, one per step.
func (o *objective) loader(seed uint64) datasets.Loader {
	return datasets.Loader{
		Objects: o.data.Objects, Scenes: o.data.Scenes, BatchSize: o.config.Batch, ImageSize: o.config.ImageSize,
		Seed: seed, Workers: o.data.Workers, Broken: o.data.Broken,
	}
}

// Steps is the number of steps of a run.
func (o *objective) Steps() int { return o.config.Steps }

// Workload counts the images of a step, and no products.
func (o *objective) Workload() train.Workload { return train.Workload{Images: o.config.Batch} }

// Shapes are the shapes of the step's inputs.
func (o *objective) Shapes() []shapes.Shape { return o.step.shapes() }

// Divided divides images and views over devices. Masks and dropped paths, whose rows are no images, are small.
func (o *objective) Divided() []bool {
	all := make([]bool, len(o.Shapes()))
	all[0], all[1], all[2] = true, true, o.config.Views.Locals > 0 // Images and the parameters of their views.
	return all
}

// Graph is one training step.
func (o *objective) Graph(scope *model.Scope, inputs []*Node) (out []*Node) {
	in := o.step.read(inputs)
	total, report := o.step.forward(scope, in)
	report[reportGradientNorm] = o.step.update(scope, total, in)
	for place, node := range report {
		if node != nil {
			o.reports, out = append(o.reports, place), append(out, node)
		}
	}
	return out
}

// Initialize gives both branches the same initial values.
func (o *objective) Initialize(store *model.Store, seed uint64) error {
	if err := train.Initialize(store, seed, "/"+targetScope); err != nil {
		return err
	}
	return train.CopyScope(store, "/"+onlineScope, "/"+targetScope)
}

// Inputs reads the batch of a step and draws its views, masks and dropped paths. The following batches are read and uploaded meanwhile.
func (o *objective) Inputs(ctx context.Context, at train.At) ([]any, error) {
	batch, err := o.batches.Batch(ctx, o.loader(at.Seed), at.Step, func(batch *datasets.Batch) (prepared, error) {
		inputs := o.prepare(batch, at.Seed)
		return prepared{inputs, batch.Skipped}, train.Upload(o.device, inputs, o.Divided())
	})
	if err != nil {
		return nil, err
	}
	if o.skipped != nil {
		for _, skipped := range batch.skipped {
			o.skipped(skipped)
		}
	}
	o.given = append(batch.inputs, o.config.scheduled(at.Step))
	return o.given, nil
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
				inputs = append(inputs, s.dropPaths(random, c.DropPath, count*c.Batch))
			}
		}
	}
	return inputs
}

// dropPaths draws the factors of stochastic depth, [depth, 2, batch], as [encoder.ViT.TokensDropPath] takes them.
func (s step) dropPaths(random *rand.Rand, most float64, batch int) *tensors.Tensor {
	factors := make([]float32, 0, s.vit.Depth*2*batch)
	for block := range s.vit.Depth {
		p := most * float64(block) / float64(max(1, s.vit.Depth-1))
		for range 2 * batch {
			factor := float32(1 / (1 - p))
			if random.Float64() < p {
				factor = 0
			}
			factors = append(factors, factor)
		}
	}
	return tensors.FromFlatDataAndDimensions(factors, s.vit.Depth, 2, batch)
}

// Metrics reads the reports of a step. It frees the batch.
func (o *objective) Metrics(m *StepMetrics, at train.At, outputs []*tensors.Tensor) {
	train.Free(o.given)
	o.given = nil
	m.Step, m.LearningRate = at.Step+1, float64(o.config.scheduled(at.Step)[0])
	fields := m.fields()
	for i, place := range o.reports {
		*fields[place] = float64(tensors.ToScalar[float32](outputs[i]))
	}
}

// Diverged looks at the loss and at the norm of its gradient.
func (o *objective) Diverged(m StepMetrics) string {
	if m.finite() {
		return ""
	}
	return fmt.Sprintf("it is %g and its gradient %g", m.Total, m.GradientNorm)
}

// Metadata adds the configuration to the position of a run.
func (o *objective) Metadata(at train.Position) (map[string]string, error) {
	position, err := json.Marshal(at)
	if err != nil {
		return nil, err
	}
	config, err := json.Marshal(o.config)
	return map[string]string{"position": string(position), "config": string(config)}, err
}

// Restore requires the configuration to be that of the run.
func (o *objective) Restore(metadata map[string]string, _ train.Position) (at train.Position, err error) {
	if err := json.Unmarshal([]byte(metadata["position"]), &at); err != nil {
		return at, fmt.Errorf("position in the run: %w", err)
	}
	var config Config
	if err := json.Unmarshal([]byte(metadata["config"]), &config); err != nil {
		return at, fmt.Errorf("configuration of the run: %w", err)
	}
	if config != o.config {
		return at, errors.New("belongs to a run with another configuration")
	}
	return at, nil
}

// queueOf is a variable of rows of Euclidean norm 1, which start in random directions.
func queueOf(scope *model.Scope, name string, shape shapes.Shape) *model.Variable {
	normal := initializer.RandomNormalFn(scope, 1)
	directions := func(g *Graph, shape shapes.Shape) *Node { return losses.Unit(normal(g, shape)) }
	return scope.WithInitializer(directions).VariableWithShape(name, shape).SetTrainable(false)
}
