package metrics

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/internal/jsonstream"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/rle"
	"gonum.org/v1/gonum/floats"
)

// Detection is an object that a detector found in an image.
type Detection struct {
	Image, Category int64 // IDs of COCO.
	Score           float64
	Box             *[4]float64 // x, y, width and height in pixels; nil if there is none.
	Mask            *rle.Mask   // Of the image's size; nil if there is none.
}

// OpenDetections reads a file of [ReadDetections].
func OpenDetections(path string, truth *datasets.Instances) (_ []Detection, err error) {
	defer try.Handle(&err)
	file := try.E1(jsonstream.Open(path))
	defer file.Close()
	return ReadDetections(file, path, truth)
}

// ReadDetections reads a result file of COCO: a JSON list of objects with image_id, category_id, score, and bbox or segmentation or both. Masks may be
// polygons, counts or compressed text. The first detection that is wrong is an error that names the file and the detection's place, from 0: leaving it
// out would change what is measured.
func ReadDetections(r io.Reader, name string, truth *datasets.Instances) (detections []Detection, err error) {
	defer try.HandleF(&err, func() { err = fmt.Errorf("%s: %w", name, err) })
	stream := jsonstream.New(r)
	try.E(stream.Array(func(i int) error {
		d, err := readDetection(stream, truth)
		if err != nil {
			return fmt.Errorf("detection %d: %w", i, err)
		}
		detections = append(detections, d)
		return nil
	}))
	try.E(stream.End())
	return detections, nil
}

// WriteDetections writes a result file of COCO, which [ReadDetections] and pycocotools read, one detection a line, atomically: masks are compressed text.
func WriteDetections(path string, detections []Detection) error {
	type runs struct {
		Size   [2]int `json:"size"` // Height and width.
		Counts string `json:"counts"`
	}
	text := bytes.NewBufferString("[")
	for i, d := range detections {
		out := struct {
			Image    int64       `json:"image_id"`
			Category int64       `json:"category_id"`
			Box      *[4]float64 `json:"bbox,omitempty"`
			Score    float64     `json:"score"`
			Mask     *runs       `json:"segmentation,omitempty"`
		}{Image: d.Image, Category: d.Category, Box: d.Box, Score: d.Score}
		if d.Mask != nil {
			height, width := d.Mask.Size()
			out.Mask = &runs{[2]int{height, width}, d.Mask.String()}
		}
		line, err := json.Marshal(out)
		if err != nil {
			return fmt.Errorf("writing %s: %w", path, err)
		}
		fmt.Fprintf(text, "%s\n%s", lo.Ternary(i > 0, ",", ""), line)
	}
	text.WriteString("\n]\n")
	return atomicfile.WriteBytes(path, text.Bytes())
}

func readDetection(stream *jsonstream.Reader, truth *datasets.Instances) (_ Detection, err error) {
	defer try.Handle(&err)
	var d struct {
		Image    *datasets.ID          `json:"image_id"`
		Category *datasets.ID          `json:"category_id"`
		Score    *float64              `json:"score"`
		Box      []float64             `json:"bbox"`
		Mask     datasets.InstanceMask `json:"segmentation"`
	}
	try.E(stream.Decode(&d))
	switch {
	case d.Image == nil:
		return Detection{}, errors.New("it has no image_id")
	case d.Category == nil:
		return Detection{}, errors.New("it has no category_id")
	case d.Score == nil:
		return Detection{}, errors.New("it has no score")
	case len(d.Box) != 0 && len(d.Box) != 4:
		return Detection{}, fmt.Errorf("its bbox has %d numbers, want x, y, width and height", len(d.Box))
	case len(d.Box) == 0 && d.Mask.None():
		return Detection{}, errors.New("it has neither bbox nor segmentation")
	}
	out := Detection{Image: int64(*d.Image), Category: int64(*d.Category), Score: *d.Score}
	size, known := truth.ImageSize(out.Image)
	if !known {
		return Detection{}, fmt.Errorf("%s has no image %v", truth.Name, *d.Image)
	}
	if len(d.Box) == 4 {
		out.Box = (*[4]float64)(d.Box)
	}
	if !d.Mask.None() {
		mask := try.E1(d.Mask.Runs(size))
		out.Mask = &mask
	}
	return out, out.check(size)
}

// check finds what no detection in an image of the given size may be.
func (d Detection) check(size datasets.Size) error {
	if !finite(d.Score) {
		return fmt.Errorf("its score is %g", d.Score)
	}
	if d.Box != nil {
		for _, v := range d.Box {
			if !finite(v) {
				return fmt.Errorf("its box has the number %g", v)
			}
		}
		if d.Box[2] < 0 || d.Box[3] < 0 {
			return fmt.Errorf("its box has %g×%g pixels", d.Box[2], d.Box[3])
		}
	}
	if d.Mask != nil {
		if height, width := d.Mask.Size(); height != size.Height || width != size.Width {
			return fmt.Errorf("a mask of %d×%d pixels in an image of %d×%d", width, height, size.Width, size.Height)
		}
	}
	return nil
}

func finite(v float64) bool { return v-v == 0 }

// cocoRegion is a detected or an annotated object.
type cocoRegion struct {
	id    int64 // Of an annotation.
	score float64
	box   [4]float64
	mask  rle.Mask
	area  float64
	crowd bool
}

// cocoCell holds what one image has of one category.
type cocoCell struct {
	image    int64
	truth    []cocoRegion // In the file's order.
	detected []cocoRegion // By descending score, at most 100.
	ious     [][]float64  // [detected][truth].
}

const maxDetections = 100

// prepare sorts the detections and compares them with the truth.
func (c *cocoCell) prepare(kind COCOKind) (err error) {
	slices.SortStableFunc(c.detected, func(a, b cocoRegion) int { return cmp.Compare(b.score, a.score) })
	c.detected = c.detected[:min(len(c.detected), maxDetections)]
	c.ious = make([][]float64, len(c.detected))
	for d, detected := range c.detected {
		c.ious[d] = make([]float64, len(c.truth))
		for t, truth := range c.truth {
			if kind == Boxes {
				c.ious[d][t] = boxIoU(detected.box, truth.box, truth.crowd)
			} else if c.ious[d][t], err = rle.IoU(detected.mask, truth.mask, truth.crowd); err != nil {
				return err
			}
		}
	}
	return nil
}

// boxIoU is the intersection of two boxes over their union, and over the detected box for a crowd. Conversions keep the compiler from fusing
// operations, which would change the last digit.
func boxIoU(detected, truth [4]float64, crowd bool) float64 {
	width := min(detected[0]+detected[2], truth[0]+truth[2]) - max(detected[0], truth[0])
	height := min(detected[1]+detected[3], truth[1]+truth[3]) - max(detected[1], truth[1])
	if width <= 0 || height <= 0 {
		return 0
	}
	intersection, union := float64(width*height), float64(detected[2]*detected[3])
	if !crowd {
		union = float64(union+float64(truth[2]*truth[3])) - intersection
	}
	return intersection / union
}

// cocoIoUs are the thresholds of IoU from 0.5 to 0.95, and cocoRecalls the sampled recalls from 0 to 1. On amd64 they have the last
// digits of numpy.linspace.
var (
	cocoIoUs    = [10]float64(floats.Span(make([]float64, 10), 0.5, 0.95))
	cocoRecalls = floats.Span(make([]float64, 101), 0, 1)
)

// matches is what one IoU threshold makes of a cell's detections.
type matches struct {
	matched, ignored [maxDetections]bool
}

// match gives detections, from the highest score on, the free annotation that they agree with best. Annotations that are ignored, because they are
// crowds or of areas outside the range, come last; detections that get one are ignored too, and so are those outside the range that get none. A crowd
// is never taken. It also returns the number of annotations that are not ignored.
func (c *cocoCell) match(area [2]float64) (byIoU [len(cocoIoUs)]matches, objects int) {
	outside := func(r cocoRegion) bool { return r.area < area[0] || r.area > area[1] }
	order, ignored := lo.FilterReject(lo.Range(len(c.truth)), func(t, _ int) bool { return !c.truth[t].crowd && !outside(c.truth[t]) })
	objects = len(order)
	order = append(order, ignored...)
	taken := make([]bool, len(order))
	for i, threshold := range cocoIoUs {
		clear(taken)
		m := &byIoU[i]
		for d, detected := range c.detected {
			best, best0 := -1, min(threshold, 1-1e-10)
			for g, t := range order {
				if taken[g] && !c.truth[t].crowd {
					continue
				}
				if best >= 0 && best < objects && g >= objects {
					break
				}
				if c.ious[d][t] >= best0 {
					best, best0 = g, c.ious[d][t]
				}
			}
			if best >= 0 {
				taken[best] = true
				m.matched[d] = c.truth[order[best]].id != 0 // pycocotools has 0 for none.
				m.ignored[d] = best >= objects
			}
			m.ignored[d] = m.ignored[d] || !m.matched[d] && outside(detected)
		}
	}
	return byIoU, objects
}
