package train

import (
	"slices"
	"strings"

	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/backend"
)

// Initialize sets every variable of a store to its initial value, drawn from the seed. The pure-Go engine draws, whatever the device, so that a seed
// gives the same values on every backend. Variables below the scopes named zeros are set to 0 without a draw: they are copies of others, and graphs
// built on them later may give them initializers of their own.
func Initialize(store *model.Store, seed uint64, zeros ...string) error {
	for variable := range store.IterVariables() {
		if err := variable.Reset(); err != nil {
			return err
		}
		for _, scope := range zeros {
			if strings.HasPrefix(variable.Path(), scope+model.ScopeSeparator) {
				if err := variable.SetValue(tensors.FromShape(variable.Shape())); err != nil {
					return err
				}
			}
		}
	}
	if err := store.SetRNGStateFromSeed(int64(seed)); err != nil {
		return err
	}
	host, err := backend.OpenConfig(backend.Go)
	if err != nil {
		return err
	}
	defer host.Finalize()
	if err := try(func() error { return store.InitializeVariables(host, nil) }); err != nil {
		return err
	}
	for variable := range store.IterVariables() {
		value, err := variable.Value()
		if err == nil {
			err = value.ToLocal()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// CopyScope copies the variables below one scope to those below another.
func CopyScope(store *model.Store, from, to string) error {
	for variable := range store.Scope(to).IterVariables() {
		value, err := store.GetVariable(from + variable.Path()[len(to):]).Value()
		if err == nil {
			value, err = value.LocalClone()
		}
		if err == nil {
			err = variable.SetValue(value)
		}
		if err != nil {
			return err
		}
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
	var values []*Node
	for _, variable := range variables {
		values = append(values, variable.NodeValue(loss))
	}
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
