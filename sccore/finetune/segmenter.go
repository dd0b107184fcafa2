package finetune

import (
	"fmt"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/heads"
)

// The heads of a [Segmenter].
const (
	UPerNet = "upernet" // [heads.UPerNet] with [heads.Auxiliary].
	FPN     = "fpn"     // [heads.SemanticFPN].
)

// Segmenter is a vision transformer with a segmentation head on a pyramid of its blocks (paper, appendix "Full fine-tuning for semantic segmentation with
// complex models").
type Segmenter struct {
	ViT     encoder.ViT
	Head    string
	Classes int
	// Channels is the width of UPerNet or of the neck of the FPN, whose head is half as wide. The auxiliary head of UPerNet is as wide, but at most 256.
	Channels int
}

// Check returns an error that names the first invalid setting.
func (s Segmenter) Check() error {
	if err := s.ViT.Check(); err != nil {
		return err
	}
	switch {
	case s.Head != UPerNet && s.Head != FPN:
		return fmt.Errorf("head %q is neither %s nor %s", s.Head, UPerNet, FPN)
	case s.Channels < 2 || s.Channels > 1<<14:
		return fmt.Errorf("channels %d is not between 2 and %d", s.Channels, 1<<14)
	case s.Classes < 2 || s.Classes > 255:
		return fmt.Errorf("classes %d is not between 2 and 255", s.Classes)
	}
	return nil
}

func (s Segmenter) upernet() heads.UPerNet {
	h := heads.DefaultUPerNet(s.Classes)
	h.Channels = s.Channels
	return h
}

func (s Segmenter) auxiliary() heads.Auxiliary {
	h := heads.DefaultAuxiliary(s.Classes)
	h.Channels = min(h.Channels, s.Channels)
	return h
}

func (s Segmenter) fpn() heads.SemanticFPN {
	h := heads.DefaultSemanticFPN(s.Classes)
	h.NeckChannels, h.Channels = s.Channels, s.Channels/2
	return h
}

// logits returns the logits of normalised images, [rows, columns, batch, Classes] with rows = 4·height/PatchSize, and those of the auxiliary head, or nil
// if there is none. keep holds the factors of stochastic depth, or nil.
func (s Segmenter) logits(scope *model.Scope, images, keep *Node, train bool) (logits, auxiliary *Node) {
	rows, columns := images.Shape().Dim(1)/s.ViT.PatchSize, images.Shape().Dim(2)/s.ViT.PatchSize
	tokens := s.ViT.TokensDropPath(scope.At(backboneScope), images, keep)
	levels := heads.DefaultPyramid(s.ViT.Depth).Levels(scope, tokens.Blocks, rows, columns, train)
	if s.Head == FPN {
		return s.fpn().Logits(scope, levels, train), nil
	}
	if train {
		auxiliary = s.auxiliary().Logits(scope, levels, train)
	}
	return s.upernet().Logits(scope, levels, train), auxiliary
}

// loss returns the losses of the head and of the auxiliary head, which is 0 if there is none. labels are [batch, height, width] in uint8.
func (s Segmenter) loss(scope *model.Scope, images, labels, keep *Node) (loss, auxiliary *Node) {
	logits, auxiliaryLogits := s.logits(scope, images, keep, true)
	labels = TransposeAllAxes(labels, 1, 2, 0)
	loss = heads.CrossEntropy(logits, labels)
	if auxiliaryLogits == nil {
		return loss, ZerosLike(loss)
	}
	return loss, heads.CrossEntropy(auxiliaryLogits, labels)
}

// infer returns the logits of normalised images, [batch, rows, columns, Classes].
func (s Segmenter) infer(scope *model.Scope, images *Node) *Node {
	logits, _ := s.logits(scope, images, nil, false)
	return TransposeAllAxes(logits, 2, 0, 1, 3)
}
