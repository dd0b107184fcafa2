package finetune

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/optim"
)

// Optimizer says how a pretrained transformer and the new layers on top of it are trained together: by AdamW, whose rate falls from the new layers
// towards the image, block by block.
type Optimizer struct {
	LearningRate float64 `json:"rate" range:"(0,1e3]"`         // The peak rate of the new layers.
	LayerDecay   float64 `json:"layer_decay" range:"(0,1]"`    // The rate of a block over the rate of the block above it; 1 trains all alike.
	WeightDecay  float64 `json:"weight_decay" range:"[0,1e3]"` // Weight decay; it acts neither on biases and norms nor on [CLS], registers and position embeddings.

	WarmUp      int     `json:"warmup" range:"[0,2^31)"`    // Steps of linear warm-up.
	WarmUpRatio float64 `json:"warmup_ratio" range:"(0,1]"` // The share of the rate at step 0.

	// Power is the exponent of the polynomial schedule; 0 for the schedule of Milestones.
	Power      float64    `json:"power" range:"[0,100]"`
	Milestones [2]float64 `json:"milestones" range:"(0,1]"` // Without Power, shares of the steps after which the rate falls to a tenth.

	DropPath float64 `json:"drop_path" range:"[0,0.99]"` // The probability that the last block drops a branch for an image; it falls linearly to 0 at the first block.
}

// Rate is the learning rate of the new layers at a step of a run, counted from 0.
func (o Optimizer) Rate(step, steps int) float64 {
	rate := 0.0
	if o.Power > 0 {
		rate = optim.Poly(step, steps, o.LearningRate, o.Power)
	} else {
		at := func(share float64) int { return int(math.Round(share * float64(steps))) }
		rate = optim.Milestones(step, o.LearningRate, 0.1, at(o.Milestones[0]), at(o.Milestones[1]))
	}
	return optim.WarmUp(step, o.WarmUp, o.WarmUpRatio, rate)
}

// Protocol says how the optimizer trains, for records.
func (o Optimizer) Protocol() string {
	schedule := fmt.Sprintf("falling to 0 as a polynomial of degree %g", o.Power)
	if o.Power == 0 {
		schedule = fmt.Sprintf("divided by 10 after %.3g and %.3g of the steps", o.Milestones[0], o.Milestones[1])
	}
	return fmt.Sprintf("AdamW at rate %g %s, warm-up %d steps, layer decay %g, weight decay %g, drop-path %g",
		o.LearningRate, schedule, o.WarmUp, o.LayerDecay, o.WeightDecay, o.DropPath)
}

// layer is the number of a variable's layer in a transformer of the given depth: 0 for what makes tokens of the image, 1 for the first block, and depth
// + 1 for the final normalisation and everything outside the encoder, as in the fine-tuning of BEiT, MAE and iBOT.
func layer(path, encoderScope string, depth int) int {
	name, ok := strings.CutPrefix(path, encoderScope+model.ScopeSeparator)
	first, rest, _ := strings.Cut(name, model.ScopeSeparator)
	switch {
	case ok && first == "blocks":
		number, _, _ := strings.Cut(rest, model.ScopeSeparator)
		if i, err := strconv.Atoi(number); err == nil {
			return i + 1
		}
	case ok && (first == "patch_embed" || isToken(name)):
		return 0
	}
	return depth + 1
}

// isToken reports whether a variable of the encoder is a token or a table of position embeddings. They do not decay.
func isToken(path string) bool {
	name := path[strings.LastIndex(path, model.ScopeSeparator)+1:]
	return strings.HasSuffix(name, "_token") || name == "pos_embed"
}

// Update sets the next value of each variable from its gradient. encoderScope is the scope of the transformer of the given depth. rate, a float32 scalar, comes
// from [Optimizer.Rate]. The optimizer's state lives under scope.
func (o Optimizer) Update(scope *model.Scope, encoderScope string, depth int, variables []*model.Variable, gradients []*Node, rate *Node) {
	type group struct {
		layer     int
		decays    bool
		variables []*model.Variable
		gradients []*Node
	}
	var groups []*group
	for i, variable := range variables {
		number, decays := layer(variable.Path(), encoderScope, depth), !isToken(variable.Path())
		at := slices.IndexFunc(groups, func(g *group) bool { return g.layer == number && g.decays == decays })
		if at < 0 {
			at, groups = len(groups), append(groups, &group{layer: number, decays: decays})
		}
		groups[at].variables, groups[at].gradients = append(groups[at].variables, variable), append(groups[at].gradients, gradients[i])
	}
	for _, g := range groups {
		name, weightDecay := fmt.Sprintf("layer%d", g.layer), o.WeightDecay
		if !g.decays {
			name, weightDecay = name+"_tokens", 0
		}
		scale := math.Pow(o.LayerDecay, float64(depth+1-g.layer))
		optim.DefaultAdamW().Update(scope.At("%s", name), g.variables, g.gradients, MulScalar(rate, scale), Scalar(rate.Graph(), rate.DType(), weightDecay))
	}
}
