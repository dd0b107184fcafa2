package detection

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/model"
)

// stage is one of the cascaded heads.
type stage struct {
	matcher Matcher
	coder   Coder
	weight  float64 // Of its losses.
}

// stages are those of Cai and Vasconcelos, Cascade R-CNN (2018), with the deviations of the recipe: the later a stage, the better are its boxes.
var stages = [3]stage{
	{Matcher{Positive: 0.5, Negative: 0.5}, Coder{[4]float64{0.1, 0.1, 0.2, 0.2}}, 1},
	{Matcher{Positive: 0.6, Negative: 0.6}, Coder{[4]float64{0.05, 0.05, 0.1, 0.1}}, 0.5},
	{Matcher{Positive: 0.7, Negative: 0.7}, Coder{[4]float64{0.033, 0.033, 0.067, 0.067}}, 0.25},
}

// headLevels is the number of levels that the heads pool from, the strides 4 to 32. The RPN has one more.
const headLevels = 4

// Losses are the losses of a batch, scalars, weighted as they enter the sum.
type Losses struct {
	AnchorClass, AnchorBox *Node    // Of the RPN.
	Class, Box, Mask       [3]*Node // Of each stage.
}

// Total is the sum of all losses.
func (l Losses) Total() *Node {
	sum := Add(l.AnchorClass, l.AnchorBox)
	for i := range l.Class {
		sum = Add(sum, Add(l.Class[i], Add(l.Box[i], l.Mask[i])))
	}
	return sum
}

// Losses returns the losses of a batch.
//
//   - features: patch features of the last block of a transformer with patches of [PatchSize] pixels, [batch, rows, columns, dim]. Gradients pass to them.
//   - sizes: heights and widths of the images on the canvas, [batch, 2].
//   - uniform: random numbers in [0, 1) that decide the samples, [batch, n], with n from [Config.UniformNumbers].
//
// Variables live under scope in pyramid, rpn, and box and mask of stage0 to stage2. Losses panics if [Config.Check] returns an error.
func (c Config) Losses(scope *model.Scope, features, sizes *Node, objects Objects, uniform *Node) Losses {
	if err := c.Check(); err != nil {
		panic(err)
	}
	batch, count := objects.Boxes.Shape().Dim(0), objects.Boxes.Shape().Dim(1)
	dtype := exact(features.DType())
	objects.Boxes, uniform = ConvertDType(objects.Boxes, dtype), ConvertDType(uniform, dtype)
	objects.Labels = ConvertDType(objects.Labels, dtypes.Int32)
	uniform.AssertDims(batch, c.UniformNumbers(features.Shape().Dim(1), features.Shape().Dim(2), count))
	next := func(n int) *Node {
		x := SliceAxis(uniform, 1, AxisRange(0, n))
		if rest := uniform.Shape().Dim(1) - n; rest > 0 {
			uniform = SliceAxis(uniform, 1, AxisRange(n))
		}
		return x
	}

	levels := Pyramid(scope.At("pyramid"), features, c.Channels)
	rpn := c.RPN(scope.At("rpn"), levels)
	anchors := 0
	for _, level := range rpn.Anchors {
		anchors += level.Shape().Dim(0)
	}
	var out Losses
	out.AnchorClass, out.AnchorBox = rpn.Losses(objects, sizes, next(anchors), c.AnchorSamples)

	boxes, present := rpn.Proposals(sizes, c.TrainProposals)
	for i, stage := range stages {
		at := scope.At("stage%d", i)
		s, sampled, object := c.sample(stage.matcher, boxes, present, objects, next(boxes.Shape().Dim(1)+count))
		targets, labels := take(objects.Boxes, object), MaxScalar(take(objects.Labels, object), 0)
		head := c.boxHead(at.At("box"), levels[:headLevels], sampled, s.Valid)
		class, box := c.losses(head, stage.coder, sampled, targets, labels, s, c.positives())
		out.Class[i], out.Box[i] = MulScalar(class, stage.weight), MulScalar(box, stage.weight)

		first := func(x *Node) *Node { return SliceAxis(x, 1, AxisRange(0, c.positives())) }
		masks := c.maskHead(at.At("mask"), levels[:headLevels], first(sampled))
		out.Mask[i] = MulScalar(maskLoss(masks, first(sampled), first(s.Positive), first(object), objects), stage.weight)

		// The next stage gets the refined samples without the objects' own boxes, which it adds itself.
		boxes = refine(head, stage.coder, sampled, Where(s.Positive, labels, head.likeliest()), sizes)
		ownBox := LessThan(s.Index, Scalar(s.Index.Graph(), dtypes.Int32, count))
		present = LogicalAnd(s.Valid, LogicalNot(ownBox))
	}
	return out
}

// sample draws the boxes of a stage, [batch, BoxSamples, 4], from boxes, [batch, n, 4], and the objects' own boxes, which come first. Object is the index
// of the object of each.
func (c Config) sample(m Matcher, boxes, present *Node, objects Objects, uniform *Node) (s Samples, sampled, object *Node) {
	own := objects.present()
	matches := m.Match(boxes, objects.Boxes, own, nil)
	index := Iota(boxes.Graph(), shapes.Make(dtypes.Int32, own.Shape().Dimensions...), 1)
	join := func(a, b *Node) *Node { return Concatenate([]*Node{a, b}, 1) }
	positive := join(own, LogicalAnd(matches.Positive, present))
	negative := join(LogicalAnd(own, LogicalNot(own)), LogicalAnd(matches.Negative, present))
	s = Sampler{Count: c.BoxSamples, Positives: c.positives()}.Sample(positive, negative, uniform)
	return s, take(join(objects.Boxes, boxes), s.Index), take(join(index, matches.Object), s.Index)
}
