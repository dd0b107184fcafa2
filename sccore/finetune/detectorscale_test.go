package finetune

import (
	"math"
	"slices"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/detection"
)

// With patches of 8 pixels, the parts of the detector count pixels that are half as long. The tests have two images on canvases of 32×48 pixels, of which the
// second fills a part.

// smallSizes are the heights and widths that the images fill.
var smallSizes = []int32{32, 48, 28, 30}

// smallPixels draws the images.
func smallPixels() *tensors.Tensor {
	pixels := make([]uint8, 2*32*48*3)
	for i := range pixels {
		pixels[i] = uint8(i * i * 31 % 251)
	}
	return tensors.FromFlatDataAndDimensions(pixels, 2, 32, 48, 3)
}

// doubled are lengths in pixels of the detector.
func doubled(lengths, like *Node) *Node { return MulScalar(ConvertDType(lengths, like.DType()), 2) }

func flatOf(t *tensors.Tensor) []float32 { return tensors.MustCopyFlatData[float32](t) }

// TestDetectionLossWithSmallPatches: boxes, frames and sizes of images are doubled for the losses.
func TestDetectionLossWithSmallPatches(t *testing.T) {
	config := tinyDetection()
	config.Optimizer.DropPath = 0
	d, store := config.Detector, model.NewStore()
	defer store.Finalize()
	if err := store.SetRNGStateFromSeed(3); err != nil {
		t.Fatal(err)
	}
	losses := model.MustNewExec(testbackend.Go(t), store, func(scope *model.Scope, inputs []*Node) []*Node {
		total, _ := config.loss(scope, append(slices.Clone(inputs), nil))
		images := Normalize(inputs[0], inputs[1], config.Mean, config.Std)
		features := d.features(scope, images, nil)
		// of are the losses where boxes, frames and sizes count some other pixels.
		of := func(boxes, frames, sizes func(lengths, like *Node) *Node) *Node {
			objects := detection.Objects{Boxes: boxes(inputs[2], images), Labels: inputs[3], Masks: inputs[4], Frames: frames(inputs[5], images)}
			return d.Losses(scope, features, sizes(inputs[1], images), objects, inputs[6]).Total()
		}
		same := func(lengths, like *Node) *Node { return ConvertDType(lengths, like.DType()) }
		return []*Node{total, of(doubled, doubled, doubled), of(same, doubled, doubled), of(doubled, same, doubled), of(doubled, doubled, same)}
	})
	defer losses.Finalize()
	boxes := []float32{2, 3, 20, 22, 24, 4, 44, 30, 0, 0, 0, 0, 1, 2, 18, 26, 0, 0, 0, 0, 0, 0, 0, 0}
	masks := make([]uint8, 2*3*16*16)
	for i := range masks {
		masks[i] = uint8(i / 5 % 2)
	}
	out := losses.MustCall(
		smallPixels(), tensors.FromFlatDataAndDimensions(smallSizes, 2, 2), tensors.FromFlatDataAndDimensions(boxes, 2, 3, 4),
		[][]int32{{1, 4, -1}, {2, -1, -1}}, tensors.FromFlatDataAndDimensions(masks, 2, 3, 16, 16), tensors.FromFlatDataAndDimensions(boxes, 2, 3, 4),
		detection.Uniform(1, 0, 2, d.UniformNumbers(4, 6, 3)),
	)
	var got []float64
	for _, loss := range out {
		got = append(got, float64(tensors.ToScalar[float32](loss)))
	}
	for i, wrong := range []string{"boxes", "frames", "sizes"} {
		if math.Abs(got[2+i]-got[1]) < 1e-3 {
			t.Errorf("%s in pixels of the image give the same loss, %g", wrong, got[1])
		}
	}
	if !(math.Abs(got[0]-got[1]) <= 1e-5) {
		t.Errorf("the loss is %g, want %g", got[0], got[1])
	}
}

// TestDetectionsWithSmallPatches: boxes that are predicted, and those that enter the stages, are halved to pixels of the image and lie in it.
func TestDetectionsWithSmallPatches(t *testing.T) {
	config := tinyDetection()
	d, store := config.Detector, model.NewStore()
	defer store.Finalize()
	if err := store.SetRNGStateFromSeed(3); err != nil {
		t.Fatal(err)
	}
	found := model.MustNewExec(testbackend.Go(t), store, func(scope *model.Scope, pixels, sizes *Node) []*Node {
		images := Normalize(pixels, sizes, config.Mean, config.Std)
		want := d.Detect(scope, d.features(scope, images, nil), doubled(sizes, images))
		return append(d.predict(config.Mean, config.Std)(scope, pixels, sizes), want.Boxes, want.Entering[0], want.Entering[1], want.Entering[2])
	})
	defer found.Finalize()
	out := found.MustCall(smallPixels(), tensors.FromFlatDataAndDimensions(smallSizes, 2, 2))
	present, entered := tensors.MustCopyFlatData[bool](out[3]), tensors.MustCopyFlatData[bool](out[5])
	if !slices.Contains(present, true) || !slices.Contains(entered, true) {
		t.Fatal("nothing is detected")
	}
	for k, name := range []string{"detections", "proposals", "second stage", "third stage"} {
		at, there := 0, present
		if k > 0 {
			at, there = 5+k, entered
		}
		got, want, far := flatOf(out[at]), flatOf(out[9+k]), float32(0)
		for i, x := range got {
			if !there[i/4] {
				continue
			}
			image := i / (len(got) / 2)
			if most := float32(smallSizes[2*image+1-i%2]); x < 0 || x > most || !(math.Abs(float64(x-want[i]/2)) <= 1e-4) {
				t.Errorf("%s: number %d of box %d is %g, want %g, at most %g", name, i%4, i/4, x, want[i]/2, most)
			}
			far = max(far, x)
		}
		if far < 24 {
			t.Errorf("%s: no box reaches beyond the middle of the canvas, %g", name, far)
		}
	}
}
