package sccore

import (
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore/layers"
)

// Image-level losses see object-centric images only ("Datasets"). The target branch sees the global views, the online branch all views.

// imageTargets are q̄, the targets of the object-centric images in all their global views, [views, objects, Out]. One Sinkhorn–Knopp runs over all of
// them.
func (s step) imageTargets(target outputs) *Node {
	x := target.image
	rows := Reshape(x, -1, s.ImageHead.OutDim)
	return Reshape(s.Sinkhorn.Targets(rows), x.Shape().Dimensions...)
}

// imageAlignment is L̄_align ("Cross-view alignment"): the mean over all pairs of a view of the online branch and another, global view of the target
// branch.
func (s step) imageAlignment(online []outputs, targets *Node) *Node {
	return s.meanOverViews(online, targets, func(view, target int) bool { return view != target })
}

// imageConcentration is L̄_sc ("Explicit semantic concentration for image-level SSL"): it aligns every view of an image with one view of its
// positive, a neighbour. targets are those of the positives, [1, objects, Out].
func (s step) imageConcentration(online []outputs, targets *Node) *Node {
	return s.meanOverViews(online, targets, func(int, int) bool { return true })
}

// meanOverViews is the mean alignment of views with targets, [views, objects, Out], over the pairs that counts selects. Views are numbered
// consecutively, global views first.
func (s step) meanOverViews(online []outputs, targets *Node, counts func(view, target int) bool) *Node {
	var terms []*Node
	number := 0
	for _, views := range online {
		for view := range views.image.Shape().Dim(0) {
			for target := range targets.Shape().Dim(0) {
				if counts(number, target) {
					terms = append(terms, losses.Alignment(ofViews(views.image, view), ofViews(targets, target), s.Temperature))
				}
			}
			number++
		}
	}
	return ReduceAllMean(Stack(terms, 0))
}

// prototypeLoss is L_proto ("Object prototypes learning"): it pulls the online branch's prototypes U towards the target branch's patch tokens of
// object-centric images, taken from their first view and downsampled to the prototypes' size.
func (s step) prototypeLoss(prototypes *Node, target outputs, objects int) *Node {
	count, side, dim := prototypes.Shape().Dim(0), prototypes.Shape().Dim(1), prototypes.Shape().Dim(-1)
	tokens := SliceAxis(ofViews(target.tokens, 0), 0, AxisRange(0, objects))
	g := tokens.Graph()
	whole := BroadcastToDims(ConvertDType(Const(g, [][]float64{{0, 0, 1, 1}}), s.dtype), objects, 4)
	features := layers.RoIAlign{OutputSize: side}.Pool(tokens, whole, ZerosLike(Reshape(SliceAxis(whole, 1, AxisElem(0)), objects)))
	return losses.PrototypeEntropy(Reshape(prototypes, count, side*side*dim), Reshape(features, objects, side*side*dim), s.PrototypeTemperature)
}
