package detection

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/layers"
)

// The recipe of the region proposal network (mmdetection, configs/_base_/models/cascade_mask_rcnn_r50_fpn.py).
const (
	proposalNMS    = 0.7
	anchorBeta     = 1.0 / 9 // Of the smooth L1 loss.
	anchorHeadInit = 0.01    // Deviation of the initial weights.
)

var (
	anchorMatcher = Matcher{Positive: 0.7, Negative: 0.3, LowQuality: 0.3}
	anchorCoder   = Coder{[4]float64{1, 1, 1, 1}}
)

// RPN is the output of the region proposal network (Ren et al., Faster R-CNN, 2015). Each list has an entry for each level.
type RPN struct {
	Logits  []*Node // Objectness of the anchors, [batch, anchors].
	Codes   []*Node // Codes of the boxes relative to the anchors, [batch, anchors, 4].
	Anchors []*Node // [anchors, 4].
}

// RPN applies the head to the levels of a pyramid, [height, width, batch, channels], with strides 4, 8, 16 and so on. The levels share its variables, conv, cls
// and reg under scope.
func (c Config) RPN(scope *model.Scope, levels []*Node) RPN {
	var out RPN
	const ratios = len(anchorRatios)
	for i, level := range levels {
		height, width, batch := level.Shape().Dim(0), level.Shape().Dim(1), level.Shape().Dim(2)
		initial := normal(scope, anchorHeadInit)
		x := layers.ReLU(convolution(scope.At("conv"), level, 3, c.Channels, initial))
		dtype := exact(level.DType())
		perImage := func(x *Node) *Node { return ConvertDType(TransposeAllAxes(x, 2, 0, 1, 3), dtype) }
		logits := perImage(convolution(scope.At("cls"), x, 1, ratios, initial))
		codes := perImage(convolution(scope.At("reg"), x, 1, 4*ratios, initial))
		out.Logits = append(out.Logits, Reshape(logits, batch, height*width*ratios))
		out.Codes = append(out.Codes, Reshape(codes, batch, height*width*ratios, 4))
		out.Anchors = append(out.Anchors, Anchors(level.Graph(), dtype, height, width, finestStride<<i))
	}
	return out
}

// Losses matches the anchors within the image with the objects, and samples from them. It returns the mean binary cross-entropy of the sampled anchors, and the smooth L1 loss of the codes of the positive ones, divided by the number of all
// samples of the batch. Uniform, [batch, anchors of all levels], decides the samples. Sizes, [batch, 2], are the heights and widths of the images.
func (r RPN) Losses(objects Objects, sizes, uniform *Node, samples int) (class, box *Node) {
	anchors := Concatenate(r.Anchors, 0)
	dtype := anchors.DType()
	within := inside(anchors, sizes)
	matches := anchorMatcher.Match(InsertAxes(anchors, 0), objects.Boxes, objects.present(), within)
	drawn := Sampler{samples, samples / 2}.Sample(LogicalAnd(matches.Positive, within), LogicalAnd(matches.Negative, within), uniform)

	logits := take(Concatenate(r.Logits, 1), drawn.Index)
	count := number(drawn.Valid, dtype)
	class = Div(masked(binaryCrossEntropy(logits, asNumbers(drawn.Positive, dtype)), drawn.Valid), count)

	codes := take(Concatenate(r.Codes, 1), drawn.Index)
	references := Gather(anchors, InsertAxes(drawn.Index, -1))
	targets := take(objects.Boxes, take(matches.Object, drawn.Index))
	distance := ReduceSum(smoothL1(Sub(codes, anchorCoder.Encode(references, targets)), anchorBeta), -1)
	return class, Div(masked(distance, drawn.Positive), count)
}

// Proposals returns at most count boxes an image, [batch, n, 4], the best first, and the mask of those that are there, [batch, n]: of each level the count best
// anchors, decoded, clipped to the image and thinned by NMS, and of those the count best. No gradient passes.
func (r RPN) Proposals(sizes *Node, count int) (boxes, present *Node) {
	var all, scores, kept []*Node
	for i, logits := range r.Logits {
		batch, n := logits.Shape().Dim(0), logits.Shape().Dim(1)
		everywhere := ConvertDType(OnesLike(logits), dtypes.Bool)
		best, _ := Best(logits, everywhere, count)
		codes := take(StopGradient(r.Codes[i]), best)
		references := take(BroadcastToDims(InsertAxes(r.Anchors[i], 0), batch, n, 4), best)
		level := ClipBoxes(anchorCoder.Decode(references, codes), sizes)
		score := take(StopGradient(logits), best)
		hasArea := GreaterThan(area(level), ScalarZero(level.Graph(), level.DType()))
		all, scores = append(all, level), append(scores, score)
		kept = append(kept, NMS(level, score, nil, hasArea, proposalNMS))
	}
	best, present := Best(Concatenate(scores, 1), Concatenate(kept, 1), count)
	return StopGradient(take(Concatenate(all, 1), best)), present
}
