package heads

import (
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/layers"
)

// UPerNet is the segmentation head of Xiao et al., "Unified Perceptual Parsing" (2018), as mmsegmentation's UPerHead: a pyramid of pooled features on
// the coarsest level, a top-down path with additions, and a 3×3 convolution over all levels together. Resizing is bilinear, with align_corners=False.
type UPerNet struct {
	Classes  int
	Channels int     // Channels of every layer.
	Dropout  float64 // Probability that a channel is dropped before the classifier, in training.
}

// PoolScales are the bins along each side of the pooled features.
var PoolScales = []int{1, 2, 3, 6}

// DefaultUPerNet returns mmsegmentation's head of 512 channels and dropout 0.1. For a vision transformer, iBOT's recipe sets Channels to the length of
// a token: 384 for ViT-S.
func DefaultUPerNet(classes int) UPerNet {
	return UPerNet{Classes: classes, Channels: 512, Dropout: 0.1}
}

// Check returns an error that names the first invalid setting.
func (h UPerNet) Check() error { return h.decoder(false).check("UPerNet", h.Channels) }

func (h UPerNet) decoder(train bool) decoder { return decoder{h.Classes, h.Dropout, train} }

// Logits maps the levels of a pyramid, [rows, columns, batch, features] with the finest first, to logits at the resolution of the finest level,
// [rows, columns, batch, Classes]. [Pyramid.Levels] makes such levels.
//
// Variables live in decode_head under scope, with the names of mmsegmentation and "/" for ".", and have the dtype of the levels. If train is true, batch
// normalisation uses the statistics of the whole batch and moves the running ones, and channels are dropped. The batch then needs two images, for the
// normalisation of one bin. Logits panics if [UPerNet.Check] returns an error.
func (h UPerNet) Logits(scope *model.Scope, levels []*Node, train bool) *Node {
	if err := h.Check(); err != nil {
		panic(err)
	}
	d, scope := h.decoder(train), scope.At("decode_head")
	top := len(levels) - 1
	maps := make([]*Node, len(levels))
	for i, level := range levels[:top] {
		maps[i] = d.module(scope.At("lateral_convs").At("%d", i), level, 1, h.Channels)
	}
	maps[top] = h.pooled(d, scope, levels[top])
	for i := top; i > 0; i-- {
		maps[i-1] = Add(maps[i-1], like(maps[i-1], maps[i], layers.ResizeBilinear))
	}
	for i := range maps[:top] {
		maps[i] = d.module(scope.At("fpn_convs").At("%d", i), maps[i], 3, h.Channels)
	}
	for i := range maps {
		maps[i] = like(maps[0], maps[i], layers.ResizeBilinear)
	}
	return d.logits(scope, d.module(scope.At("fpn_bottleneck"), Concatenate(maps, -1), 3, h.Channels))
}

// pooled joins the coarsest level with its means over bins of four sizes: the pyramid pooling module of Zhao et al., "Pyramid Scene Parsing Network"
// (2017).
func (h UPerNet) pooled(d decoder, scope *model.Scope, x *Node) *Node {
	joined := []*Node{x}
	for i, scale := range PoolScales {
		bins := resizedTo(x, scale, scale, func(maps *Node, _, _ int) *Node { return layers.AveragePool(maps, scale) })
		bins = d.module(scope.At("psp_modules").At("%d", i).At("1"), bins, 1, h.Channels)
		joined = append(joined, like(x, bins, layers.ResizeBilinear))
	}
	return d.module(scope.At("bottleneck"), Concatenate(joined, -1), 3, h.Channels)
}
