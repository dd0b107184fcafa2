package train

import (
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/backend"
)

// inPlace makes the new values of variables take the memory of the old ones, so that a step holds weights and optimizer state once and copies
// neither. [model.Exec] gives the old values away and puts the new ones before a graph's own results, in the store's order.
func inPlace(graph func(scope *model.Scope, inputs []*Node) []*Node) func(scope *model.Scope, inputs []*Node) []*Node {
	return func(scope *model.Scope, inputs []*Node) []*Node {
		results := graph(scope, inputs)
		g, changed := results[0].Graph(), 0
		for variable := range scope.Store().IterVariables() {
			if !variable.ChangedInGraph(g) {
				continue
			}
			if parameter := g.GetParameterByName(variable.Path()); parameter != nil {
				backend.Alias(InternalBackendOutputs(parameter)[0], changed)
			}
			changed++
		}
		return results
	}
}
