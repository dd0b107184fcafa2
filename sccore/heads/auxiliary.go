package heads

import (
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// Auxiliary is the head that trains beside [UPerNet] on level 2 of the pyramid and is left out of predictions: mmsegmentation's FCNHead with one 3×3
// convolution, and concat_input=False. Its loss counts [AuxiliaryWeight] times.
type Auxiliary struct {
	Classes  int
	Channels int     // Channels of the convolution.
	Dropout  float64 // Probability that a channel is dropped before the classifier, in training.
}

// AuxiliaryLevel is the level of the pyramid that the auxiliary head takes, and AuxiliaryWeight the weight of its loss.
const (
	AuxiliaryLevel  = 2
	AuxiliaryWeight = 0.4
)

// DefaultAuxiliary returns the recipe's head, of 256 channels and dropout 0.1.
func DefaultAuxiliary(classes int) Auxiliary {
	return Auxiliary{Classes: classes, Channels: 256, Dropout: 0.1}
}

// Check returns an error that names the first invalid setting.
func (h Auxiliary) Check() error { return h.decoder(false).check("auxiliary head", h.Channels) }

func (h Auxiliary) decoder(train bool) decoder { return decoder{h.Classes, h.Dropout, train} }

// Logits maps the levels of a pyramid to logits at the resolution of its level 2, [rows, columns, batch, Classes]. Variables live in auxiliary_head
// under scope; otherwise it is as [UPerNet.Logits].
func (h Auxiliary) Logits(scope *model.Scope, levels []*Node, train bool) *Node {
	if err := h.Check(); err != nil {
		panic(err)
	}
	d, scope := h.decoder(train), scope.At("auxiliary_head")
	return d.logits(scope, d.module(scope.At("convs").At("0"), levels[AuxiliaryLevel], 3, h.Channels))
}
