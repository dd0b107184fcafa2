// Package detection is Cascade Mask R-CNN (Cai and Vasconcelos, 2019) on a plain Vision Transformer, as functions of graph nodes with static shapes.
//
// In come the patch features of a batch of images, padded to one canvas, and in training the boxes, labels and masks of their objects, padded to one
// number, and uniform random numbers. Out come the losses, or the detections: boxes, scores, classes and masks, at a fixed number with a mask. Paste
// turns a mask into pixels, on the host.
//
// Boxes are x1, y1, x2, y2 in pixels of the canvas, [batch, n, 4]. Feature maps are [height, width, batch, channels].
//
// Add a part with a golden file in testdata and the script that makes it.
package detection

import (
	"fmt"
	"math/rand/v2"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/model/initializer"
	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore/layers"
)

// Config is the size of a detector. What the recipe fixes otherwise, such as thresholds and weights of losses, is constant in the files of its parts.
type Config struct {
	Classes      int `json:"classes" range:"[1,2^14]"`     // Classes of objects, without the background.
	Channels     int `json:"channels" range:"[1,2^14]"`    // Channels of the pyramid and of the convolutions of all heads.
	Convolutions int `json:"convolutions" range:"[0,100]"` // 3×3 convolutions of each box head and of each mask head.
	Hidden       int `json:"hidden" range:"[1,2^14]"`      // Width of the fully connected layer of each box head.

	AnchorSamples  int `json:"anchor_samples" range:"[2,2^14]"`  // Anchors an image in the losses of the RPN. At most half of them are positive.
	TrainProposals int `json:"train_proposals" range:"[1,2^14]"` // Proposals an image in training, and the most of one level before NMS.
	TestProposals  int `json:"test_proposals" range:"[1,2^14]"`  // Proposals an image at test time, and the most of one level before NMS.
	BoxSamples     int `json:"box_samples" range:"[4,2^14]"`     // Proposals an image in the losses of each stage. At most a quarter of them are positive.

	// Candidates is the most pairs of box and class an image that enter the last NMS. The recipe has no bound; an image rarely has more than 2,000 pairs
	// above the least score.
	Candidates int `json:"candidates" range:"[1,2^14]"`
	Detections int `json:"detections" range:"[1,2^14]"` // Detections an image, the best ones.
}

// Rules returns an error if there are fewer candidates than detections.
func (c Config) Rules() error {
	if c.Detections > c.Candidates {
		return fmt.Errorf("detections %d of %d candidates", c.Detections, c.Candidates)
	}
	return nil
}

// positives is the most positive samples of a stage.
func (c Config) positives() int { return c.BoxSamples / 4 }

// Objects are the annotated objects of a batch of images, padded to one number.
type Objects struct {
	Boxes  *Node // [batch, objects, 4], x1, y1, x2, y2 in pixels of the canvas. Its values do not matter for padding, but must be finite.
	Labels *Node // [batch, objects], int32, 0 to Classes − 1, and -1 for padding.

	// Masks, [batch, objects, height, width], are 1 inside and 0 outside of each object. Any dtype.
	Masks *Node
	// Frames, [batch, objects, 4], are the regions of the canvas that the masks cover. The whole canvas at full resolution is exact; crops of fixed size
	// around each object, with a border of zeros, take less memory.
	Frames *Node
}

// present marks the objects that are no padding, [batch, objects].
func (o Objects) present() *Node {
	return GreaterOrEqual(o.Labels, ScalarZero(o.Labels.Graph(), o.Labels.DType()))
}

// UniformNumbers returns the number of uniform random numbers an image that [Config.Losses] takes for patch features of rows × columns and the given number of
// objects.
func (c Config) UniformNumbers(rows, columns, objects int) int {
	half := func(n int) int { return (n + 1) / 2 }
	levels := [][2]int{{4 * rows, 4 * columns}, {2 * rows, 2 * columns}, {rows, columns}, {rows / 2, columns / 2}, {half(rows / 2), half(columns / 2)}}
	anchors, proposals := 0, 0
	for _, level := range levels {
		n := level[0] * level[1] * len(anchorRatios)
		anchors, proposals = anchors+n, proposals+min(n, c.TrainProposals)
	}
	return anchors + min(proposals, c.TrainProposals) + objects + (len(stages)-1)*(c.BoxSamples+objects)
}

// Uniform draws uniform numbers in [0, 1), [batch, count], float32, from a seed and the number of a step.
func Uniform(seed, step uint64, batch, count int) *tensors.Tensor {
	rng := rand.New(rand.NewPCG(seed, step))
	return tensors.FromFlatDataAndDimensions(lo.Times(batch*count, func(int) float32 { return rng.Float32() }), batch, count)
}

// The recipe of the region proposal network (mmdetection, configs/_base_/models/cascade_mask_rcnn_r50_fpn.py).
const (
	proposalNMS    = 0.7
	anchorBeta     = 1.0 / 9 // Of the smooth L1 loss.
	anchorHeadInit = 0.01    // Deviation of the initial weights.
)

var (
	anchorMatcher = Matcher{Positive: 0.7, Negative: 0.3, LowQuality: 0.3}
	anchorCoder   = Coder{1, 1, 1, 1}
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
		initial := initializer.RandomNormalFn(scope, anchorHeadInit)
		x := layers.ReLU(layers.BiasedConvolution(scope.At("conv"), level, 3, c.Channels, initial))
		dtype := layers.AtLeastFloat32(level.DType())
		perImage := func(x *Node) *Node { return ConvertDType(TransposeAllAxes(x, 2, 0, 1, 3), dtype) }
		logits := perImage(layers.BiasedConvolution(scope.At("cls"), x, 1, ratios, initial))
		codes := perImage(layers.BiasedConvolution(scope.At("reg"), x, 1, 4*ratios, initial))
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
	class = Div(MaskedReduceAllSum(binaryCrossEntropy(logits, asNumbers(drawn.Positive, dtype)), drawn.Valid), count)

	codes := take(Concatenate(r.Codes, 1), drawn.Index)
	references := Gather(anchors, InsertAxes(drawn.Index, -1))
	targets := take(objects.Boxes, take(matches.Object, drawn.Index))
	distance := ReduceSum(smoothL1(Sub(codes, anchorCoder.Encode(references, targets)), anchorBeta), -1)
	return class, Div(MaskedReduceAllSum(distance, drawn.Positive), count)
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

// stage is one of the cascaded heads.
type stage struct {
	matcher Matcher
	coder   Coder
	weight  float64 // Of its losses.
}

// stages are the stages of Cascade R-CNN (Cai and Vasconcelos, 2018), with the deviations of the recipe: the later a stage, the better are its boxes.
var stages = [3]stage{
	{Matcher{Positive: 0.5, Negative: 0.5}, Coder{0.1, 0.1, 0.2, 0.2}, 1},
	{Matcher{Positive: 0.6, Negative: 0.6}, Coder{0.05, 0.05, 0.1, 0.1}, 0.5},
	{Matcher{Positive: 0.7, Negative: 0.7}, Coder{0.033, 0.033, 0.067, 0.067}, 0.25},
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
	total := Add(l.AnchorClass, l.AnchorBox)
	for i := range l.Class {
		total = Add(total, Add(l.Class[i], Add(l.Box[i], l.Mask[i])))
	}
	return total
}

// Losses returns the losses of a batch.
//
//   - features: patch features of the last block of a transformer with patches of [PatchSize] pixels, [batch, rows, columns, dim]. Gradients pass to them.
//   - sizes: heights and widths of the images on the canvas, [batch, 2].
//   - uniform: random numbers in [0, 1) that decide the samples, [batch, n], with n from [Config.UniformNumbers].
//
// Variables live under scope in pyramid, rpn, and box and mask of stage0 to stage2.
func (c Config) Losses(scope *model.Scope, features, sizes *Node, objects Objects, uniform *Node) Losses {
	batch, count := objects.Boxes.Shape().Dim(0), objects.Boxes.Shape().Dim(1)
	dtype := layers.AtLeastFloat32(features.DType())
	objects.Boxes, uniform = ConvertDType(objects.Boxes, dtype), ConvertDType(uniform, dtype)
	objects.Labels = ConvertDType(objects.Labels, dtypes.Int32)
	uniform.AssertDims(batch, c.UniformNumbers(features.Shape().Dim(1), features.Shape().Dim(2), count))
	used := 0
	next := func(n int) *Node {
		used += n
		return SliceAxis(uniform, 1, AxisRange(used-n, used))
	}

	levels := Pyramid(scope.At("pyramid"), features, c.Channels)
	rpn := c.RPN(scope.At("rpn"), levels)
	anchors := lo.SumBy(rpn.Anchors, func(level *Node) int { return level.Shape().Dim(0) })
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

const (
	leastScore   = 0.05
	detectionNMS = 0.5
)

// Detections are the detected objects of a batch of images, the best first, at a fixed number an image.
type Detections struct {
	Boxes   *Node // [batch, Detections, 4], x1, y1, x2, y2 in pixels of the canvas, within the image.
	Scores  *Node // Probability of the class, [batch, Detections].
	Labels  *Node // [batch, Detections], int32, 0 to Classes − 1.
	Present *Node // [batch, Detections], bool. The others are padding.
	Masks   *Node // Probability of the object in each part of the box, [batch, Detections, MaskSize, MaskSize]. [Paste] puts them into an image.

	// Entering are the boxes that enter each stage, [batch, TestProposals, 4], at most: first the proposals, the best first, then the same ones as
	// the stages before have refined them. Entered, [batch, TestProposals], is false for padding.
	Entering [len(stages)]*Node
	Entered  *Node
}

// Detect returns the detections of a batch. Features, sizes and variables are as for [Config.Losses]. Each stage in turn refines the boxes. Logits of classes
// and probabilities of masks are means over the stages. Of the pairs of box and class with a probability above 0.05, the best are thinned by NMS with 0.5
// within each class (mmdetection's CascadeRoIHead).
func (c Config) Detect(scope *model.Scope, features, sizes *Node) Detections {
	batch, dtype := features.Shape().Dim(0), layers.AtLeastFloat32(features.DType())
	levels := Pyramid(scope.At("pyramid"), features, c.Channels)
	boxes, present := c.RPN(scope.At("rpn"), levels).Proposals(sizes, c.TestProposals)
	n := boxes.Shape().Dim(1)
	levels = levels[:headLevels]

	var logits, perClass *Node
	var entering [len(stages)]*Node
	for i, stage := range stages {
		entering[i] = boxes
		out := c.boxHead(scope.At("stage%d", i).At("box"), levels, boxes, nil)
		logits = plus(logits, ConvertDType(out.logits, dtype))
		if i < len(stages)-1 {
			boxes = refine(out, stage.coder, boxes, out.likeliest(), sizes)
			continue
		}
		references := BroadcastToDims(InsertAxes(boxes, 2), batch, n, c.Classes, 4)
		perClass = stage.coder.Decode(references, ConvertDType(out.codes, dtype))
		perClass = ClipBoxes(Reshape(perClass, batch, n*c.Classes, 4), sizes)
	}

	probabilities := Softmax(DivScalar(logits, len(stages)), -1)
	scores := Reshape(SliceAxis(probabilities, 2, AxisRange(0, c.Classes)), batch, n*c.Classes)
	there := Reshape(BroadcastToDims(InsertAxes(present, -1), batch, n, c.Classes), batch, n*c.Classes)
	likely := LogicalAnd(there, GreaterThan(scores, Scalar(scores.Graph(), dtype, leastScore)))
	candidates, isCandidate := Best(scores, likely, c.Candidates)
	pairScores, pairBoxes := take(scores, candidates), take(perClass, candidates)
	labels := ModScalar(candidates, c.Classes)
	keep := NMS(pairBoxes, pairScores, labels, isCandidate, detectionNMS)
	best, found := Best(pairScores, keep, c.Detections)
	out := Detections{Boxes: take(pairBoxes, best), Scores: take(pairScores, best), Labels: ConvertDType(take(labels, best), dtypes.Int32), Present: found}
	out.Entering, out.Entered = entering, present
	out.Masks = c.masks(scope, levels, out)
	return out
}

// masks returns the mean over the stages of the probabilities of the masks of detections for their classes.
func (c Config) masks(scope *model.Scope, levels []*Node, d Detections) *Node {
	batch, n := d.Labels.Shape().Dim(0), d.Labels.Shape().Dim(1)
	labels := BroadcastToDims(Reshape(d.Labels, 1, 1, batch*n), MaskSize, MaskSize, batch*n)
	var sum *Node
	for i := range stages {
		logits := c.maskHead(scope.At("stage%d", i).At("mask"), levels, d.Boxes)
		sum = plus(sum, Sigmoid(ofClass(ConvertDType(logits, d.Boxes.DType()), labels)))
	}
	return Reshape(TransposeAllAxes(DivScalar(sum, len(stages)), 2, 0, 1), batch, n, MaskSize, MaskSize)
}

// plus adds to a sum, which is nil at first.
func plus(sum, x *Node) *Node {
	if sum == nil {
		return x
	}
	return Add(sum, x)
}
