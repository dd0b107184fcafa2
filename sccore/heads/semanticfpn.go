package heads

import (
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/layers"
)

// SemanticFPN is the segmentation head of Kirillov et al., "Panoptic Feature Pyramid Networks" (2019), as mmsegmentation's FPN neck and FPNHead. The
// neck is a top-down path with additions, without normalisation and activations. The head brings each level to the resolution of the finest one, by 3×3
// convolutions that each precede a bilinear upsampling by 2, and adds them.
type SemanticFPN struct {
	Classes      int
	NeckChannels int     // Channels of the neck.
	Channels     int     // Channels of the head.
	Dropout      float64 // Probability that a channel is dropped before the classifier, in training.
}

// DefaultSemanticFPN returns mmsegmentation's neck of 256 and head of 128 channels, with dropout 0.1. XCiT's recipe sets NeckChannels to the length of a
// token instead: 384 for models of the size of ViT-S.
func DefaultSemanticFPN(classes int) SemanticFPN {
	return SemanticFPN{Classes: classes, NeckChannels: 256, Channels: 128, Dropout: 0.1}
}

// Check returns an error that names the first invalid setting.
func (h SemanticFPN) Check() error {
	return h.decoder(false).check("semantic FPN", h.NeckChannels, h.Channels)
}

func (h SemanticFPN) decoder(train bool) decoder { return decoder{h.Classes, h.Dropout, train} }

// Logits maps the levels of a pyramid to logits at the resolution of the finest level, [rows, columns, batch, Classes]. Each level has half the
// resolution of the one before. Variables live in neck and decode_head under scope; otherwise it is as [UPerNet.Logits], but one image is enough.
func (h SemanticFPN) Logits(scope *model.Scope, levels []*Node, train bool) *Node {
	if err := h.Check(); err != nil {
		panic(err)
	}
	d, head := h.decoder(train), scope.At("decode_head")
	var sum *Node
	for i, x := range h.neck(scope.At("neck"), levels) {
		scales := head.At("scale_heads").At("%d", i)
		for k := range max(i, 1) {
			x = d.module(scales.At("%d", 2*k), x, 3, h.Channels) // PyTorch counts the upsamplings too.
			if i > 0 {
				x = resizedTo(x, 2*x.Shape().Dim(0), 2*x.Shape().Dim(1), layers.ResizeBilinear)
			}
		}
		if sum == nil {
			sum = x
		} else {
			sum = Add(sum, like(sum, x, layers.ResizeBilinear))
		}
	}
	return d.logits(head, sum)
}

// neck maps levels to maps of the same sizes and NeckChannels channels.
func (h SemanticFPN) neck(scope *model.Scope, levels []*Node) []*Node {
	convolution := func(scope *model.Scope, x *Node, size int) *Node {
		scope = scope.At("conv")
		return initialised(scope, x, size, h.NeckChannels, xavier(scope, size, x.Shape().Dim(3), h.NeckChannels))
	}
	maps := make([]*Node, len(levels))
	for i, level := range levels {
		maps[i] = convolution(scope.At("lateral_convs").At("%d", i), level, 1)
	}
	for i := len(maps) - 1; i > 0; i-- {
		maps[i-1] = Add(maps[i-1], like(maps[i-1], maps[i], layers.ResizeNearest))
	}
	for i := range maps {
		maps[i] = convolution(scope.At("fpn_convs").At("%d", i), maps[i], 3)
	}
	return maps
}
