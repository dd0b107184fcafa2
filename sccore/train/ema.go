package train

import (
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/model"
)

// UpdateEMA moves the exponential moving average of a branch's weights, θ_t ← β·θ_t + (1 − β)·θ_o, for every trainable variable below
// online and its namesake below target. β is a scalar in [0, 1]: 0 copies, as at the start of a run.
//
// Target variables are made as needed and never trained. What is no trainable variable, such as running statistics, is each branch's own.
// In a step that also moves the online branch, call it afterwards: it takes the online branch's next values, as DINO does.
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
