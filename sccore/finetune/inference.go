package finetune

import (
	"context"
	"errors"
	"fmt"
	"image"
	"math"
	"slices"

	"github.com/dsnet/try"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/heads"
	"github.com/semcon/semcon/sccore/layers"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/safetensors"
	"github.com/semcon/semcon/sccore/settings"
)

// SegmentationInference says how the classes of an image's pixels are predicted, as by mmsegmentation. The image is resized; a network gives the logits of overlapping
// crops, or of the whole; the logits of a pixel are averaged over the crops that show it, and resized to the image's own size, where the largest is the
// prediction.
type SegmentationInference struct {
	Scale    Scale         `json:"scale"`                               // What images are resized to.
	Mode     InferenceMode `json:"mode" oneof:"slide|whole"`            // What the network sees of an image: slide for overlapping crops, whole for the whole image.
	CropSize int           `json:"crop_size,omitzero" range:"[0,2^14]"` // Height and width of crops in pixels, with mode slide. A shorter image has shorter crops.
	Stride   int           `json:"stride,omitzero" range:"[0,2^14]"`    // Pixels from one crop to the next, at most CropSize, with mode slide. The last crop ends with the image.
	// Divisor rounds the sides of the resized image up to multiples, for networks that see whole patches; 0 for 1. XCiT's recipe of semantic FPN has 32.
	Divisor int `json:"divisor,omitzero" range:"[0,2^14]"`
}

// InferenceMode says what a network sees of an image.
type InferenceMode string

// The modes.
const (
	Slide InferenceMode = "slide" // Overlapping crops.
	Whole InferenceMode = "whole" // The whole image.
)

// Rules returns an error if crops have no size or no stride.
func (p SegmentationInference) Rules() error {
	switch {
	case p.Mode == Slide && p.CropSize < 1:
		return settings.Between("crop_size", p.CropSize, 1, maxScale)
	case p.Mode == Slide && (p.Stride < 1 || p.Stride > p.CropSize):
		return fmt.Errorf("stride %d is not between 1 and the crop_size %d", p.Stride, p.CropSize)
	}
	return nil
}

// Canvases are images, or crops of one image, on canvases of one size.
type Canvases struct {
	Count         int
	datasets.Size         // Of a canvas.
	Pixels        []uint8 // [Count, Height, Width, 3], RGB.
	Fill          []int32 // [Count, 2], the height and width that an image fills, from the top left corner.
}

// canvases are images that fill canvases of a size.
func canvases(size datasets.Size, pixels []uint8) Canvases {
	count := len(pixels) / (3 * size.Height * size.Width)
	return Canvases{count, size, pixels, slices.Repeat(filled(size), count)}
}

// filled is the height and width that an image fills.
func filled(size datasets.Size) []int32 { return []int32{int32(size.Height), int32(size.Width)} }

// Logits are what a network says of crops.
type Logits struct {
	Rows, Columns, Classes int       // A crop's logits may be fewer than its pixels.
	Values                 []float32 // [Count, Rows, Columns, Classes].
}

// Segment returns the logits of crops, resized bilinearly to the crops' size, as mmsegmentation resizes the logits of its heads (align_corners=false).
type Segment func(ctx context.Context, crops Canvases) (Logits, error)

// Predict returns the class of each pixel of an image, [a.Height, a.Width]; of equal logits the first class wins. The error is the error of segment, or one line that names the image whose logits are not finite.
func (p SegmentationInference) Predict(ctx context.Context, a *datasets.SegmentedImage, segment Segment) ([]uint8, error) {
	from := datasets.Size{Height: a.Height, Width: a.Width}
	scaled, by := p.Scale.Of(from), max(1, p.Divisor)
	size := datasets.Size{Height: roundUp(scaled.Height, by), Width: roundUp(scaled.Width, by)}
	pixels := make([]uint8, 3*size.Height*size.Width)
	resize(pixels, size.Width, a.Pixels, from, size, image.Rect(0, 0, size.Width, size.Height))

	corners, crop := p.crops(size)
	var crops []uint8
	for _, corner := range corners {
		for y := range crop.Height {
			crops = append(crops, pixels[3*((corner.Y+y)*size.Width+corner.X):][:3*crop.Width]...)
		}
	}
	logits, err := segment(ctx, canvases(crop, crops))
	if err != nil {
		return nil, err
	}
	if err := safetensors.CheckFinite(logits.Values); err != nil {
		return nil, fmt.Errorf("%s: logits: %w", a.Name, err)
	}
	return heads.PredictPixels(logits.stitched(corners, crop, size), size.Height, size.Width, logits.Classes, from.Height, from.Width), nil
}

// crops returns the top left corners of the crops of an image, row by row, and their size.
func (p SegmentationInference) crops(size datasets.Size) (corners []image.Point, crop datasets.Size) {
	if p.Mode == Whole {
		return []image.Point{{}}, size
	}
	starts := func(length int) (all []int) {
		for start := 0; ; start += p.Stride {
			if start+p.CropSize >= length {
				return append(all, max(length-p.CropSize, 0))
			}
			all = append(all, start)
		}
	}
	for _, y := range starts(size.Height) {
		for _, x := range starts(size.Width) {
			corners = append(corners, image.Pt(x, y))
		}
	}
	return corners, datasets.Size{Height: min(p.CropSize, size.Height), Width: min(p.CropSize, size.Width)}
}

// Evaluate predicts the images of a set and compares them with their labels at the full size of the annotation, as mmsegmentation does. segment is called for
// one image after the other. It is an error if an image cannot be read, or if no pixel of the set is annotated.
func (p SegmentationInference) Evaluate(ctx context.Context, images *datasets.Segmentation, segment Segment) (result metrics.Segmentation, err error) {
	defer try.Handle(&err)
	confusion := metrics.NewConfusion(len(images.Classes))
	for a, err := range datasets.InTurn(ctx, images.Len(), 0, images.Read) {
		try.E(err)
		try.E(confusion.Add(a.Mask, try.E1(p.Predict(ctx, a, segment))))
	}
	if result = confusion.Segmentation(); math.IsNaN(result.Accuracy) {
		return result, errors.New("no pixel of the images is annotated")
	}
	return result, nil
}

// stitched resizes the logits of crops to the crops' size and averages them, [size.Height, size.Width, Classes]. corners are the top left corners of crops.
func (l Logits) stitched(corners []image.Point, crop, size datasets.Size) []float32 {
	down, across := layers.BilinearTaps(l.Rows, crop.Height), layers.BilinearTaps(l.Columns, crop.Width)
	all, counts := make([]float32, size.Height*size.Width*l.Classes), make([]float32, size.Height*size.Width)
	line := make([]float32, l.Columns*l.Classes) // A crop's logits at a row of its pixels.
	between := func(low, high, share float32) float32 { return low + float32(share*(high-low)) }
	for i, corner := range corners {
		for y, down := range down {
			low, high := l.Values[(i*l.Rows+down.Low)*len(line):][:len(line)], l.Values[(i*l.Rows+down.High)*len(line):][:len(line)]
			for k := range line {
				line[k] = between(low[k], high[k], float32(down.Share))
			}
			for x, across := range across {
				place := (corner.Y+y)*size.Width + corner.X + x
				low, high := line[across.Low*l.Classes:][:l.Classes], line[across.High*l.Classes:][:l.Classes]
				for class, sum := range all[place*l.Classes:][:l.Classes] {
					all[place*l.Classes+class] = sum + between(low[class], high[class], float32(across.Share))
				}
				counts[place]++
			}
		}
	}
	for i := range all {
		all[i] /= counts[i/l.Classes]
	}
	return all
}
