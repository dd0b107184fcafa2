package detection

import (
	"math"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/testbackend"
)

// TestGradientsAreFiniteDifferences compares the gradient of the losses by the features with differences along two directions. The boxes of the heads are
// fixed, because no gradient passes through refined boxes.
func TestGradientsAreFiniteDifferences(t *testing.T) {
	var golden tinyDetector
	readGolden(t, "detector.json", &golden)
	near := func(boxes []float64) []float64 {
		return []float64{boxes[0] + 3.3, boxes[1] - 2.1, boxes[2] + 1.7, boxes[3] + 4.9}
	}
	var boxes [][][]float64
	for _, image := range tinyBoxes {
		boxes = append(boxes, [][]float64{near(image[0]), near(image[1]), {3.3, 60.1, 40.2, 80.7}, {0, 0, 0, 0}})
	}
	samples := func(g *Graph) Samples {
		return Samples{
			Positive: Const(g, [][]bool{{true, true, false, false}, {true, true, false, false}}),
			Valid:    Const(g, [][]bool{{true, true, true, false}, {true, true, true, false}}),
		}
	}
	features, masks, uniform := tinyInputs()
	exec := model.MustNewExec(testbackend.Go(t), tinyStore(t, golden), func(scope *model.Scope, features, masks, uniform *Node) []*Node {
		g := features.Graph()
		objects, sizes := tinyObjects(g, masks), Const(g, tinySizes)
		levels := Pyramid(scope.At("pyramid"), features, tiny.Channels)
		rpn := tiny.RPN(scope.At("rpn"), levels)
		uniform = SliceAxis(uniform, 1, AxisRange(0, Concatenate(rpn.Anchors, 0).Shape().Dim(0)))
		class, box := rpn.Losses(objects, sizes, uniform, tiny.AnchorSamples)

		levels = levels[:headLevels]
		sampled, object, s := Const(g, boxes), Const(g, [][]int32{{0, 1, 0, 0}, {0, 1, 0, 0}}), samples(g)
		at := scope.At("stage0")
		out := tiny.boxHead(at.At("box"), levels, sampled, s.Valid)
		class0, box0 := tiny.losses(out, stages[0].coder, sampled, take(objects.Boxes, object), take(objects.Labels, object), s, 2)
		mask0 := maskLoss(tiny.maskHead(at.At("mask"), levels, sampled), sampled, s.Positive, object, objects)
		loss := Add(Add(Add(class, box), Add(class0, box0)), mask0)
		return []*Node{loss, Gradient(loss, features)[0]}
	})
	defer exec.Finalize()
	at := tensors.MustCopyFlatData[float64](features)
	value := func(x []float64) (loss float64, gradient []float64) {
		out := exec.MustCall(tensors.FromFlatDataAndDimensions(x, features.Shape().Dimensions...), masks, uniform)
		return out[0].Value().(float64), tensors.MustCopyFlatData[float64](out[1])
	}
	_, gradient := value(at)
	for k := range 2 {
		const step = 1e-7 // Shorter, so that no ReLU turns between.
		ahead, behind, slope := slices.Clone(at), slices.Clone(at), 0.0
		for i, d := range noise(50+k, len(at)) {
			ahead[i], behind[i], slope = ahead[i]+step*d, behind[i]-step*d, slope+d*gradient[i]
		}
		up, _ := value(ahead)
		down, _ := value(behind)
		if difference := (up - down) / (2 * step); !(math.Abs(difference-slope) < 1e-6*math.Abs(slope)) {
			t.Errorf("direction %d: slope %g, finite differences %g", k, slope, difference)
		}
	}
}

// Masks of crops give the same targets as masks of the whole canvas, as long as a border of zeros is in the crop.
func TestTargetsOfCroppedMasks(t *testing.T) {
	const width, height = 74, 64
	_, masks, _ := tinyInputs()
	pixels := tensors.MustCopyFlatData[uint8](masks)
	var cropped []uint8
	var frames, boxes [2][3][]float64
	for i, image := range tinyBoxes {
		for j, box := range image {
			left, top := max(min(int(box[0])-1, 128-width), 0), max(min(int(box[1])-1, 96-height), 0)
			frames[i][j] = []float64{float64(left), float64(top), float64(left + width), float64(top + height)}
			boxes[i][j] = []float64{box[0] - 5.3, box[1] + 2.1, box[2] + 3.9, box[3] - 1.2}
			for y := top; y < top+height; y++ {
				row := ((i*3+j)*96 + y) * 128
				cropped = append(cropped, pixels[row+left:row+left+width]...)
			}
		}
	}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		out := MustExecOnceN(b, func(masks, crops, boxes, frames *Node) []*Node {
			g := masks.Graph()
			whole := tinyObjects(g, masks)
			crop := whole
			crop.Masks, crop.Frames = crops, frames
			object := Const(g, [][]int32{{0, 1, 2}, {0, 1, 2}})
			return []*Node{maskTargets(boxes, object, crop), maskTargets(boxes, object, whole)}
		}, tensors.FromFlatDataAndDimensions(pixels, masks.Shape().Dimensions...), tensors.FromFlatDataAndDimensions(cropped, 2, 3, height, width),
			[][][]float64{boxes[0][:], boxes[1][:]}, [][][]float64{frames[0][:], frames[1][:]})
		agree(t, "targets", out[0], out[1], 0)
		inside := 0.0
		for _, v := range flat(out[1]) {
			inside += v
		}
		if inside < 1000 || inside > 4000 {
			t.Errorf("%g of %d pixels are inside", inside, 6*MaskSize*MaskSize)
		}
	})
}
