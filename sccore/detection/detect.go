package detection

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/model"
)

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

// Detect returns the detections of a batch: features and sizes are those of [Config.Losses], and so are the variables. The boxes are refined by each stage
// in turn, the logits of the classes averaged over the stages, as are the masks' probabilities. Of the pairs of box and class with a probability
// above 0.05, the best are thinned by NMS with 0.5 within each class (mmdetection's CascadeRoIHead). Detect panics if [Config.Check] returns an error.
func (c Config) Detect(scope *model.Scope, features, sizes *Node) Detections {
	if err := c.Check(); err != nil {
		panic(err)
	}
	batch, dtype := features.Shape().Dim(0), exact(features.DType())
	levels := Pyramid(scope.At("pyramid"), features, c.Channels)
	boxes, present := c.RPN(scope.At("rpn"), levels).Proposals(sizes, c.TestProposals)
	n := boxes.Shape().Dim(1)
	levels = levels[:headLevels]

	var logits, perClass *Node
	var entering [len(stages)]*Node
	for i, stage := range stages {
		entering[i] = boxes
		out := c.boxHead(scope.At("stage%d", i).At("box"), levels, boxes, nil)
		if i == 0 {
			logits = ConvertDType(out.logits, dtype)
		} else {
			logits = Add(logits, ConvertDType(out.logits, dtype))
		}
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
		probability := Sigmoid(ofClass(ConvertDType(logits, d.Boxes.DType()), labels))
		if sum == nil {
			sum = probability
		} else {
			sum = Add(sum, probability)
		}
	}
	return Reshape(TransposeAllAxes(DivScalar(sum, len(stages)), 2, 0, 1), batch, n, MaskSize, MaskSize)
}
