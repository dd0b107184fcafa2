package train

import (
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/model"
)

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
