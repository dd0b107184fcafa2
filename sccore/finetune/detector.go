package finetune

import (
	"fmt"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/detection"
	"github.com/semcon/semcon/sccore/encoder"
)

// Detector is a vision transformer with Cascade Mask R-CNN on the output of its last block (paper, section "Object detection").
//
// The parts of the detector count pixels of an image whose patches have [detection.PatchSize] pixels. With smaller patches, anchors and the limits between
// the levels of the pyramid are smaller in the same measure.
type Detector struct {
	ViT encoder.ViT `json:"vit"`
	detection.Config
}

// Check returns an error that names the first invalid setting.
func (d Detector) Check() error {
	if err := d.ViT.Check(); err != nil {
		return err
	}
	if d.ViT.Dim%4 != 0 {
		return fmt.Errorf("tokens of length %d: the pyramid needs a multiple of 4", d.ViT.Dim)
	}
	return d.Config.Check()
}

// divisor is what sides of a canvas are multiples of: two patches, for the coarsest level.
func (d Detector) divisor() int { return 2 * d.ViT.PatchSize }

// scale is the factor from pixels of images to those of the detector.
func (d Detector) scale() float64 { return float64(detection.PatchSize) / float64(d.ViT.PatchSize) }

// features returns the patch features of the last block, not normalised, of normalised images. keep holds the factors of stochastic depth, or nil.
func (d Detector) features(scope *model.Scope, images, keep *Node) *Node {
	batch, rows, columns := images.Shape().Dim(0), images.Shape().Dim(1)/d.ViT.PatchSize, images.Shape().Dim(2)/d.ViT.PatchSize
	blocks := d.ViT.TokensDropPath(scope.At(backboneScope), images, keep).Blocks
	last := blocks[len(blocks)-1]
	patches := SliceAxis(last, 1, AxisRange(last.Shape().Dim(1)-rows*columns))
	return ConvertDType(Reshape(patches, batch, rows, columns, d.ViT.Dim), images.DType())
}

// inDetector brings lengths in pixels of images to those of the detector.
func (d Detector) inDetector(lengths, like *Node) *Node {
	return MulScalar(ConvertDType(lengths, like.DType()), d.scale())
}

// losses returns the losses of normalised images, whose objects and sizes are in pixels of the canvas.
func (d Detector) losses(scope *model.Scope, images, sizes, keep *Node, objects detection.Objects, uniform *Node) detection.Losses {
	objects.Boxes, objects.Frames = d.inDetector(objects.Boxes, images), d.inDetector(objects.Frames, images)
	return d.Losses(scope, d.features(scope, images, keep), d.inDetector(sizes, images), objects, uniform)
}

// detect returns the detections of normalised images, in pixels of the canvas.
func (d Detector) detect(scope *model.Scope, images, sizes *Node) detection.Detections {
	found := d.Detect(scope, d.features(scope, images, nil), d.inDetector(sizes, images))
	for _, boxes := range []**Node{&found.Boxes, &found.Entering[0], &found.Entering[1], &found.Entering[2]} {
		*boxes = DivScalar(*boxes, d.scale())
	}
	return found
}

// FLOPs counts the floating-point operations of the matrix products and convolutions of a training image on a canvas of height × width pixels, forward. A
// product and its sum count as two. A training step takes about three times as many.
func (d Detector) FLOPs(height, width int) float64 {
	patches := float64(height/d.ViT.PatchSize) * float64(width/d.ViT.PatchSize)
	dim, channels, classes := float64(d.ViT.Dim), float64(d.Channels), float64(d.Classes)
	products := d.ViT.FLOPs(int(patches)) / 2

	// The transposed convolutions of the pyramid, and the convolutions of each level.
	products += patches * (4*dim*dim/2 + 4*4*dim/2*dim/4 + 4*dim*dim/2)
	places := 0.0
	for _, level := range []struct{ places, dim float64 }{{16 * patches, dim / 4}, {4 * patches, dim / 2}, {patches, dim}, {patches / 4, dim}} {
		products += level.places * channels * (level.dim + 9*channels)
		places += level.places
	}
	const anchors = 3
	products += (places + patches/16) * channels * (9*channels + anchors*5)

	const stages, boxBins, maskBins = 3, 7 * 7, 14 * 14
	convolution := 9 * channels * channels
	box := boxBins*(float64(d.Convolutions)*convolution+channels*float64(d.Hidden)) + float64(d.Hidden)*(classes+1+4*classes)
	mask := maskBins * (float64(d.Convolutions)*convolution + 4*channels*channels + 4*channels*classes)
	return 2 * (products + stages*float64(d.BoxSamples)*(box+mask/4)) // A quarter of the samples has a mask.
}
