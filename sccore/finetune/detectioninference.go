package finetune

import (
	"context"
	"fmt"
	"image"
	"math"
	"runtime"
	"slices"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/detection"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/rle"
	"golang.org/x/sync/errgroup"
)

// DetectionInference says how objects are found in images: an image is resized to a scale and put on the canvas that training images have; a detector finds
// boxes with scores, classes and masks; boxes are brought to the image's own size, where the masks are pasted into them.
type DetectionInference struct {
	Scale   Scale `json:"scale"`                    // What images are resized to.
	Divisor int   `json:"divisor" range:"[1,2^14]"` // Of the sides of the canvas in pixels, as the detector needs it.
}

// Raw is what a detector finds on canvases, the best first, with places left over.
type Raw struct {
	Places  int // For detections on a canvas.
	Boxes   []float32
	Scores  []float32
	Labels  []int32
	Present []bool    // [Count, Places]; false for a place that is left over.
	Masks   []float32 // [Count, Places, detection.MaskSize, detection.MaskSize].

	// Entering are the boxes that enter each stage, the best proposals first, as in [detection.Detections]; Entered is false for a place that is left over.
	Entering [3][]float32
	Entered  []bool
}

// Detect finds objects on canvases.
type Detect func(ctx context.Context, canvases Canvases) (Raw, error)

// Found is a detected object.
type Found struct {
	Class int
	Score float64    // Probability of the class, above 0.05.
	Box   [4]float64 // x1, y1, x2, y2 in pixels of the image, within it.
	Mask  rle.Mask   // Of the image's size.
}

// Predict finds the objects in an image, the best first. The error is the error of detect, or one line that names the image.
func (p DetectionInference) Predict(ctx context.Context, a *datasets.SegmentedImage, detect Detect) ([]Found, error) {
	found, err := p.predict(ctx, []*datasets.SegmentedImage{a}, 1, detect)
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

// predict finds the objects in images that share a canvas, in a batch that is filled up with black images.
func (p DetectionInference) predict(ctx context.Context, images []*datasets.SegmentedImage, batch int, detect Detect) ([][]Found, error) {
	canvas := p.canvas(images[0])
	area := 3 * canvas.Height * canvas.Width
	in := canvases(canvas, make([]uint8, batch*area))
	sizes := make([]datasets.Size, len(images))
	for i, a := range images {
		from := datasets.Size{Height: a.Height, Width: a.Width}
		sizes[i] = p.Scale.Of(from)
		resize(in.Pixels[i*area:], canvas.Width, a.Pixels, from, sizes[i], image.Rect(0, 0, sizes[i].Width, sizes[i].Height))
		copy(in.Fill[2*i:], filled(sizes[i]))
	}
	raw, err := detect(ctx, in)
	if err != nil {
		return nil, err
	}
	found := make([][]Found, len(images))
	for i, a := range images {
		if found[i], err = raw.of(i, a, sizes[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", a.Name, err)
		}
	}
	return found, nil
}

// canvas is the canvas of an image.
func (p DetectionInference) canvas(a *datasets.SegmentedImage) datasets.Size {
	return p.Scale.canvasFor(datasets.Size{Height: a.Height, Width: a.Width}, p.Divisor)
}

// of returns what is found in the image on canvas i, which it fills to the given size.
func (r Raw) of(i int, a *datasets.SegmentedImage, size datasets.Size) ([]Found, error) {
	var found []Found
	var places []int
	down, across := float64(a.Height)/float64(size.Height), float64(a.Width)/float64(size.Width)
	for place := i * r.Places; place < (i+1)*r.Places; place++ {
		if !r.Present[place] {
			continue
		}
		b, score := r.Boxes[4*place:][:4], float64(r.Scores[place])
		if math.IsNaN(score) {
			return nil, fmt.Errorf("a score is %g", score)
		}
		box := [4]float64{float64(b[0]) * across, float64(b[1]) * down, float64(b[2]) * across, float64(b[3]) * down}
		for k, most := range [4]int{a.Width, a.Height, a.Width, a.Height} {
			if math.IsNaN(box[k]) || math.IsInf(box[k], 0) {
				return nil, fmt.Errorf("a box has the number %g", box[k])
			}
			box[k] = min(max(box[k], 0), float64(most))
		}
		found, places = append(found, Found{Class: int(r.Labels[place]), Score: score, Box: box}), append(places, place)
	}
	const cells = detection.MaskSize * detection.MaskSize
	var workers errgroup.Group
	workers.SetLimit(runtime.GOMAXPROCS(0))
	for k := range found {
		workers.Go(func() (err error) {
			box := found[k].Box
			pixels := detection.Paste(r.Masks[places[k]*cells:][:cells], detection.MaskSize,
				[4]float32{float32(box[0]), float32(box[1]), float32(box[2]), float32(box[3])}, a.Height, a.Width)
			found[k].Mask, err = rle.Encode(a.Height, a.Width, pixels)
			return err
		})
	}
	return found, workers.Wait()
}

// Results returns what is found in an image in COCO's terms. categories holds a category for each class.
func Results(found []Found, image int64, categories []datasets.ObjectCategory) []metrics.Detection {
	results := make([]metrics.Detection, 0, len(found))
	for _, f := range found {
		box := [4]float64{f.Box[0], f.Box[1], f.Box[2] - f.Box[0], f.Box[3] - f.Box[1]}
		results = append(results, metrics.Detection{Image: image, Category: categories[f.Class].ID, Score: f.Score, Box: &box, Mask: &f.Mask})
	}
	return results
}

// DetectionResult is the evaluation of a set.
type DetectionResult struct {
	Boxes, Masks metrics.COCOAP
	Detections   []metrics.Detection // In the order of the images.
}

// Evaluate finds the objects in the images of a set and compares them with the annotations, as pycocotools does. The area of a detected mask is its own, not
// the area of its box. Images are detected in batches of the given size that share a canvas. It is an error if an image cannot be read. Classes of the detector
// are the categories of the set.
func (p DetectionInference) Evaluate(ctx context.Context, images *datasets.ObjectImages, batch int, detect Detect) (result DetectionResult, err error) {
	perImage := make([][]metrics.Detection, images.Len())
	type group struct {
		pictures []*datasets.SegmentedImage
		places   []int // In the set.
	}
	waiting := map[datasets.Size]group{} // Images by canvas.
	flush := func(canvas datasets.Size) error {
		found, err := p.predict(ctx, waiting[canvas].pictures, batch, detect)
		for k := range found {
			i := waiting[canvas].places[k]
			perImage[i] = Results(found[k], images.Image(i).ID, images.Truth.Categories)
		}
		delete(waiting, canvas)
		return err
	}
	i := 0
	for a, err := range datasets.InTurn(ctx, images.Len(), 0, images.Read) {
		if err != nil {
			return result, err
		}
		canvas := p.canvas(a)
		g := waiting[canvas]
		g = group{append(g.pictures, a), append(g.places, i)}
		if waiting[canvas] = g; len(g.places) == batch {
			if err := flush(canvas); err != nil {
				return result, err
			}
		}
		i++
	}
	for canvas := range waiting {
		if err := flush(canvas); err != nil {
			return result, err
		}
	}
	result.Detections = slices.Concat(perImage...)
	if result.Boxes, err = metrics.EvaluateCOCO(images.Truth, result.Detections, metrics.Boxes); err != nil {
		return result, err
	}
	maskOnly := slices.Clone(result.Detections) // Their areas are then the areas of the masks, as in mmdetection and detectron2.
	for i := range maskOnly {
		maskOnly[i].Box = nil
	}
	result.Masks, err = metrics.EvaluateCOCO(images.Truth, maskOnly, metrics.Masks)
	return result, err
}
