package train

import (
	"context"

	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
)

// Objective is what a [Trainer] compiles and runs. M is what a step reports. [DataParallel], [GradientAccumulator], [Initializer] and [Checkpointer] are
// optional.
type Objective[M any] interface {
	// Shapes are the shapes of Graph's inputs.
	Shapes() []shapes.Shape
	// Graph builds one step: the loss, its gradient and the update of the variables. It returns what Metrics reads. It is built once and may panic.
	Graph(scope *model.Scope, inputs []*graph.Node) []*graph.Node

	// Steps is the number of steps of a run.
	Steps() int
	// Inputs returns the inputs of a step. They depend on at alone, whatever was asked before, since a run may resume anywhere.
	Inputs(ctx context.Context, at At) ([]any, error)
	// Metrics adds Graph's outputs to the metrics of the step, which start at zero. The outputs are freed afterwards.
	Metrics(metrics *M, at At, outputs []*tensors.Tensor)
	// Diverged says how the metrics of a step show that the run has diverged, such as "it is NaN"; it returns "" if they do not.
	Diverged(metrics M) string
}

// At identifies a step of a run.
type At struct {
	Seed uint64
	Step int // From 0.
	Part int // The part of a [GradientAccumulator]'s batch; its number of parts stands for the update after them.
}

// GradientAccumulator is an objective that computes its batch in equal parts, one after the other, for a batch that does not fit in memory. With more
// than one part, Graph accumulates gradients and Update takes the optimizer's step; Inputs and Metrics are also called for the update.
type GradientAccumulator interface {
	Parts() int // The same for all runs.
	UpdateShapes() []shapes.Shape
	Update(scope *model.Scope, inputs []*graph.Node) []*graph.Node
}

// Initializer is an objective that sets the initial values itself instead of using [Initialize], for example to copy the online branch to the target
// branch. The values depend on the seed alone.
type Initializer interface {
	Initialize(store *model.Store, seed uint64) error
}

// Checkpointer is an objective that writes the metadata of its checkpoints itself. Other objectives have a [Position] under the key "position".
type Checkpointer interface {
	// Metadata describes where the run stands. The key "note" is reserved.
	Metadata(at Position) (map[string]string, error)
	// Restore sets the objective from what Metadata wrote and returns where the run stands; begun is where it stood before. The caller prefixes the
	// error with the file's name.
	Restore(metadata map[string]string, begun Position) (Position, error)
}

// Position is where a run stands. Everything that is drawn in a run depends on it.
type Position struct {
	Seed uint64 `json:"seed"`
	Done int    `json:"done"` // Steps done.
}
