package train

import (
	"context"

	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
)

// Objective is what a [Trainer] compiles and runs. M is what a step reports. [InParts], [Initializer] and [Recorder] are optional.
type Objective[M any] interface {
	// Shapes are those of the inputs of Graph.
	Shapes() []shapes.Shape
	// Graph is one step: the loss, its gradient and the update of the variables. It returns what Metrics reads. It is built once and may panic.
	Graph(scope *model.Scope, inputs []*graph.Node) []*graph.Node

	// Steps is the number of steps of a run.
	Steps() int
	// Inputs are those of a step. They depend on at alone, whatever was asked before: a run may be resumed anywhere.
	Inputs(ctx context.Context, at At) ([]any, error)
	// Metrics adds what Graph returned to the metrics of the step, which are zero at its beginning. The outputs are freed afterwards.
	Metrics(metrics *M, at At, outputs []*tensors.Tensor)
	// Diverged says how the metrics of a step show that the run has diverged, "it is NaN"; it is empty as long as they do not.
	Diverged(metrics M) string
}

// At names a step of a run.
type At struct {
	Seed uint64
	Step int // From 0.
	Part int // Of an objective [InParts]; its number of parts stands for the update behind them.
}

// InParts is an objective whose batch is computed in equal parts, one after the other, for a batch that does not fit at once. With more than
// one part, Graph adds up gradients and Update takes the optimizer's step; Inputs and Metrics are called for the update, too.
type InParts interface {
	Parts() int // The same for all runs.
	UpdateShapes() []shapes.Shape
	Update(scope *model.Scope, inputs []*graph.Node) []*graph.Node
}

// Initializer is an objective whose variables do not simply begin as [Initialize] sets them: one that copies the online branch to the target
// branch, say. The values depend on the seed alone.
type Initializer interface {
	Initialize(store *model.Store, seed uint64) error
}

// Recorder is an objective that writes the metadata of its checkpoints itself. Others have the key "position", a [Position].
type Recorder interface {
	// Metadata says where the run stands. The key "note" is taken.
	Metadata(at Position) (map[string]string, error)
	// Restore sets the objective to what Metadata wrote and returns where the run stands; begun is where it stood before. The caller puts the
	// name of the file before the error.
	Restore(metadata map[string]string, begun Position) (Position, error)
}

// Position is where a run stands. All that is drawn in a run depends on it.
type Position struct {
	Seed uint64 `json:"seed"`
	Done int    `json:"done"` // Steps.
}
