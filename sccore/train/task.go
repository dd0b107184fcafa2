// Package train trains anything that learns: the method, SimCLR to SimSiam, the heads of an evaluation.
//
// It takes a [Task], which says where batches come from, what the loss is and how weights follow its gradient, and returns a [Trainer] that begins, steps,
// saves and resumes. A run ends with the same bytes whether or not it was interrupted. A [Loop] continues a run from the state of its folder to the end, with
// checkpoints and any number of [Evaluator] on the way. The next thing to train fills in a Task in its own package.
package train

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/dsnet/try"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore/backend"
)

// Task is what a [Trainer] trains. M is what a step reports. The fields from Parts on may be left out.
type Task[M any] struct {
	// Steps is the number of steps of a run.
	Steps func() int
	// Inputs are the inputs of one part of a batch, without the schedule.
	Inputs []Input
	// Batches yields the parts of batches from a number on, without end: part p of step s has the number s·Parts + p. They depend on the seed and the number
	// alone, since a run may resume anywhere.
	Batches func(ctx context.Context, seed uint64, from int) iter.Seq2[Batch, error]
	// Schedule returns the numbers that change from step to step, such as the learning rate: always as many. They are the last input of Loss.
	Schedule func(step int) []float32
	// Loss builds the graph of the loss and of what a step reports of one part of a batch. It may panic.
	Loss func(scope *model.Scope, inputs []*Node) (loss *Node, reports []Report[M])
	// Update builds the graph of the optimizer's step, and of what follows it, such as the moving average of a teacher.
	Update func(scope *model.Scope, variables []*model.Variable, gradients []*Node, schedule *Node) []Report[M]

	// Parts are the equal parts that a batch is computed in, one after the other, for a batch that does not fit in memory; 0 for 1. Their gradients are averaged.
	Parts int
	// Learnt is the scope of the variables that learn; empty for all trainable ones.
	Learnt string
	// Ahead makes batches and moves them to the device while the step before runs.
	Ahead bool
	// Describe sets what a report says besides what the graphs compute. step counts from 0.
	Describe func(metrics *M, step int)
	// Initialize sets the initial values, which depend on the seed alone; nil for the function [Initialize].
	Initialize func(store *model.Store, seed uint64) error
	// Config returns the configuration, which a checkpoint then holds: it resumes only runs of the same one.
	Config func() any
	// Save adds to the metadata of a checkpoint, which holds the [Position] under "position" and the configuration under "config". "note" is reserved.
	Save func(at Position, metadata map[string]string) error
	// Restore is the reverse. at is what "position" holds, or where the run stood before if there is no such key.
	Restore func(metadata map[string]string, at *Position) error
	// Workload is what one step computes.
	Workload Workload
	// Memory is how many bytes weights, gradients and the optimizer's state may take; nil or 0 for what the machine has.
	Memory func() int64
}

// Input is an input of a step, with a name for those who take inputs by name. Devices share the rows of a divided one, which has a row for each image of a part, or for each view of one; they all have the
// whole of others. What a graph computes does not depend on the number of devices.
type Input struct {
	Name    string
	Shape   shapes.Shape
	Divided bool
}

// ByName returns the nodes of inputs by name. Further nodes, such as the schedule, have none.
func ByName(inputs []Input, nodes []*Node) map[string]*Node {
	return lo.SliceToMapI(inputs, func(input Input, i int) (string, *Node) { return input.Name, nodes[i] })
}

// InOrder returns the values of inputs in their order. Values that are no input are left out.
func InOrder(inputs []Input, named map[string]any) []any {
	return lo.Map(inputs, func(input Input, _ int) any { return named[input.Name] })
}

// Batch is what a step learns from, or a part of it.
type Batch struct {
	Inputs []any  // Tensors among them are freed after the step, [Placed] values are not.
	Taken  func() // Called when a step takes the batch; nil for nothing.
}

// Prepared makes batches of what a loader yields.
func Prepared[T any](loaded iter.Seq2[T, error], prepare func(T) (Batch, error)) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		for item, err := range loaded {
			var batch Batch
			if err == nil {
				batch, err = prepare(item)
			}
			if !yield(batch, err) || err != nil {
				return
			}
		}
	}
}

// At identifies a part of a step of a run.
type At struct {
	Step  int // From 0.
	Part  int
	Parts int // In which the graph has computed the batch; 1 in the update after several parts.
}

// Report is a value of a step's graph and what reads it.
type Report[M any] struct {
	Name string
	Node *Node
	// Read adds the value to the metrics of the step, which start at zero. It says how the value shows that the run has diverged, such as "loss is NaN"; it
	// returns "" if it does not.
	Read func(metrics *M, at At, value *tensors.Tensor) (diverged string)
}

// Mean reports a scalar, the mean over the parts of a batch. A value that is not finite means that the run has diverged.
func Mean[M any](name string, scalar *Node, field func(metrics *M) *float64) Report[M] {
	return Report[M]{name, scalar, func(metrics *M, at At, value *tensors.Tensor) string {
		x := float64(tensors.ToScalar[float32](value))
		*field(metrics) += x / float64(at.Parts)
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Sprintf("%s is %g", name, x)
		}
		return ""
	}}
}

// Position is where a run stands. Everything that is drawn in a run depends on it.
type Position struct {
	Seed uint64 `json:"seed"`
	Done int    `json:"done"` // Steps done.
}

// Workload is what one step of a [Task] computes.
type Workload struct {
	Images   int
	FLOPs    float64 // Floating-point operations of products, forward and backward; 0 if nobody counts them.
	BFloat16 bool    // Products are in bfloat16.
}

// Usage is where the time of a [Trainer] went.
type Usage struct {
	Compiling time.Duration
	Steps     int           // Steps whose time counts: all but the trainer's first one, which warms up.
	Stepping  time.Duration // Time of these steps.
	Waiting   time.Duration // The part of it in which the step waited for its inputs.
}

// Since returns the usage after an earlier one. Compiling stays: it is done once for all runs.
func (u Usage) Since(before Usage) Usage {
	return Usage{u.Compiling, u.Steps - before.Steps, u.Stepping - before.Stepping, u.Waiting - before.Waiting}
}

// Initialize sets every variable of a store to its initial value, drawn from the seed. The pure-Go engine draws, whatever the device, so that a seed
// gives the same values on every backend. Variables below the scopes named zeros are set to 0 without a draw: they are copies of others, and graphs
// built on them later may give them initializers of their own.
func Initialize(store *model.Store, seed uint64, zeros ...string) (err error) {
	defer try.Handle(&err)
	for variable := range store.IterVariables() {
		try.E(variable.Reset())
		if lo.SomeBy(zeros, func(scope string) bool { return strings.HasPrefix(variable.Path(), scope+model.ScopeSeparator) }) {
			try.E(variable.SetValue(tensors.FromShape(variable.Shape())))
		}
	}
	try.E(store.SetRNGStateFromSeed(int64(seed)))
	host := try.E1(backend.OpenConfig(backend.Go))
	defer host.Finalize()
	try.E(backend.Catch(func() error { return store.InitializeVariables(host, nil) }))
	for variable := range store.IterVariables() {
		try.E(try.E1(variable.Value()).ToLocal())
	}
	return nil
}

// CopyScope copies the variables below one scope to those below another.
func CopyScope(store *model.Store, from, to string) (err error) {
	defer try.Handle(&err)
	for variable := range store.Scope(to).IterVariables() {
		value := try.E1(store.GetVariable(from + variable.Path()[len(to):]).Value())
		try.E(variable.SetValue(try.E1(value.LocalClone())))
	}
	return nil
}

// Learnt lists the trainable variables below a scope, or all of them if its name is empty. Other variables do not learn, whatever made them.
func Learnt(scope *model.Scope, name string) (variables []*model.Variable) {
	below := model.JoinPath(scope.Scope(), name)
	for variable := range scope.IterVariables() {
		switch {
		case !variable.Trainable:
		case name == "" || strings.HasPrefix(variable.Path(), below+model.ScopeSeparator):
			variables = append(variables, variable)
		default:
			variable.SetTrainable(false)
		}
	}
	return variables
}

// Gradients returns the gradients of a loss by the variables that [Learnt] lists.
func Gradients(scope *model.Scope, loss *Node, name string) (variables []*model.Variable, gradients []*Node) {
	variables = Learnt(scope, name)
	values := lo.Map(variables, func(variable *model.Variable, _ int) *Node { return variable.NodeValue(loss) })
	return variables, Gradient(loss, values...)
}

// UpdateEMA updates the exponential moving average of a branch's weights, θ_t ← β·θ_t + (1 − β)·θ_o, for every trainable variable below online and
// its namesake below target. β is a scalar in [0, 1]; 0 copies, as at the start of a run.
//
// Target variables are created as needed and never trained. Variables that are not trainable, such as running statistics, are not averaged. In a step
// that also updates the online branch, call it afterwards: it uses the online branch's new values, as DINO does.
func UpdateEMA(online, target *model.Scope, beta *Node) {
	g := beta.Graph()
	for variable := range online.IterVariables() {
		if !variable.Trainable {
			continue
		}
		path := target.Scope() + variable.Path()[len(online.Scope()):]
		follower := target.Store().VariableWithShape(path, variable.Shape(), Zeros).SetTrainable(false)
		rate := ConvertDType(beta, variable.DType())
		follower.SetNodeValue(Add(Mul(rate, follower.NodeValue(g)), Mul(OneMinus(rate), StopGradient(variable.NodeValue(g)))))
	}
}

// inPlace makes the new values of variables take the memory of the old ones, so that a step holds weights and optimizer state once and copies
// neither. It also counts the graph's FLOP. [model.Exec] gives the old values away and puts the new ones before a graph's own results, in the store's order.
func inPlace(flop *float64, graph func(scope *model.Scope, inputs []*Node) []*Node) func(scope *model.Scope, inputs []*Node) []*Node {
	return func(scope *model.Scope, inputs []*Node) []*Node {
		results := graph(scope, inputs)
		g, changed, roots := results[0].Graph(), 0, slices.Clone(results)
		for variable := range scope.Store().IterVariables() {
			if !variable.ChangedInGraph(g) {
				continue
			}
			roots = append(roots, variable.NodeValue(g))
			if parameter := g.GetParameterByName(variable.Path()); parameter != nil {
				backend.Alias(InternalBackendOutputs(parameter)[0], changed)
			}
			changed++
		}
		*flop = Products(roots...)
		return results
	}
}
