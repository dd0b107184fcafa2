package metrics

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/rle"
)

// COCOKind says by what detections and truth are compared.
type COCOKind string

// The two kinds.
const (
	Boxes COCOKind = "boxes"
	Masks COCOKind = "masks"
)

// COCOAP is the result of COCO's evaluation of detections, as shares from 0 to 1. A number is -1 where the truth has no object that it is about.
//
// AP is the area under the curve of precision over recall, sampled at 101 recalls, with the up to 100 detections of the highest scores for each image and
// category. AR is the largest recall. Both are means over the categories and, where the name has no other, over the IoU from 0.50 to 0.95. Small objects
// have areas up to 32², medium ones up to 96².
type COCOAP struct {
	AP       float64 `json:"AP"`
	AP50     float64 `json:"AP50"` // At an IoU of 0.50.
	AP75     float64 `json:"AP75"`
	APSmall  float64 `json:"APs"`
	APMedium float64 `json:"APm"`
	APLarge  float64 `json:"APl"`
	AR1      float64 `json:"AR1"` // With one detection for each image and category.
	AR10     float64 `json:"AR10"`
	AR100    float64 `json:"AR100"`
	ARSmall  float64 `json:"ARs"`
	ARMedium float64 `json:"ARm"`
	ARLarge  float64 `json:"ARl"`
}

// Numbers returns the 12 numbers in the order of pycocotools' stats.
func (r COCOAP) Numbers() [12]float64 {
	return [12]float64{r.AP, r.AP50, r.AP75, r.APSmall, r.APMedium, r.APLarge, r.AR1, r.AR10, r.AR100, r.ARSmall, r.ARMedium, r.ARLarge}
}

// String returns the table that pycocotools prints, of 12 lines.
func (r COCOAP) String() string {
	var table strings.Builder
	for i, row := range []struct {
		title, iou, area string
		detections       int
	}{
		{"Average Precision  (AP)", "0.50:0.95", "all", 100},
		{"Average Precision  (AP)", "0.50", "all", 100},
		{"Average Precision  (AP)", "0.75", "all", 100},
		{"Average Precision  (AP)", "0.50:0.95", "small", 100},
		{"Average Precision  (AP)", "0.50:0.95", "medium", 100},
		{"Average Precision  (AP)", "0.50:0.95", "large", 100},
		{"Average Recall     (AR)", "0.50:0.95", "all", 1},
		{"Average Recall     (AR)", "0.50:0.95", "all", 10},
		{"Average Recall     (AR)", "0.50:0.95", "all", 100},
		{"Average Recall     (AR)", "0.50:0.95", "small", 100},
		{"Average Recall     (AR)", "0.50:0.95", "medium", 100},
		{"Average Recall     (AR)", "0.50:0.95", "large", 100},
	} {
		fmt.Fprintf(&table, " %s @[ IoU=%-9s | area=%6s | maxDets=%3d ] = %0.3f\n", row.title, row.iou, row.area, row.detections, r.Numbers()[i])
	}
	return table.String()
}

// EvaluateCOCO compares detections with the truth as pycocotools' COCOeval does (Lin et al. 2014). As there:
//
//   - If the first detection has a box, every one needs one, and its area is the box's; what has no mask is judged by the box's rectangle. Otherwise
//     every detection needs a mask, its area is the mask's, and a missing box is the one around the mask.
//   - Detections of equal score count in their order, images in the order of their ids.
//   - Detections of categories that the truth does not have do not count.
//   - An annotation with the id 0 is matched and nevertheless counts as missed: number annotations from 1.
//
// An annotation without a mask is an error where masks are compared.
func EvaluateCOCO(truth *datasets.Instances, detections []Detection, kind COCOKind) (COCOAP, error) {
	regions, err := detectedRegions(truth, detections, kind)
	if err != nil {
		return COCOAP{}, err
	}
	cells := map[cocoCellKey]*cocoCell{}
	cellOf := func(category, image int64) *cocoCell {
		key := cocoCellKey{category, image}
		if cells[key] == nil {
			cells[key] = &cocoCell{key: key}
		}
		return cells[key]
	}
	for _, a := range truth.Annotations {
		r := cocoRegion{id: a.ID, box: a.Box, area: a.Area, crowd: a.Crowd}
		if kind == Masks {
			size, _ := truth.ImageSize(a.Image)
			if r.mask, err = a.Mask.Runs(size); err != nil {
				return COCOAP{}, fmt.Errorf("%s: annotation %d: %w", truth.Name, a.ID, err)
			}
		}
		c := cellOf(a.Category, a.Image)
		c.truth = append(c.truth, r)
	}
	for i, d := range detections {
		if truth.HasCategory(d.Category) {
			c := cellOf(d.Category, d.Image)
			c.detected = append(c.detected, regions[i])
		}
	}
	byCategory := map[int64][]*cocoCell{}
	for _, c := range cells {
		byCategory[c.key.category] = append(byCategory[c.key.category], c)
	}
	categories := slices.SortedFunc(slices.Values(truth.Categories), func(a, b datasets.ObjectCategory) int { return cmp.Compare(a.ID, b.ID) })
	var total cocoMeans
	for _, category := range categories {
		of := byCategory[category.ID]
		slices.SortFunc(of, func(a, b *cocoCell) int { return cmp.Compare(a.key.image, b.key.image) })
		for _, c := range of {
			if err := c.prepare(kind); err != nil {
				return COCOAP{}, fmt.Errorf("image %d: %w", c.key.image, err)
			}
		}
		total.add(of)
	}
	return total.result(), nil
}

// detectedRegions derives boxes, areas and masks that detections do not have, as loadRes of pycocotools does.
func detectedRegions(truth *datasets.Instances, detections []Detection, kind COCOKind) ([]cocoRegion, error) {
	regions := make([]cocoRegion, len(detections))
	for i, d := range detections {
		r := cocoRegion{score: d.Score}
		size, known := truth.ImageSize(d.Image)
		var err error
		switch {
		case !known:
			err = fmt.Errorf("%s has no image %d", truth.Name, d.Image)
		case detections[0].Box != nil && d.Box == nil:
			err = fmt.Errorf("it has no box, and detection 0 has one")
		case detections[0].Box == nil && d.Mask == nil:
			err = fmt.Errorf("it has no mask, and detection 0 has no box")
		default:
			err = d.check(size)
		}
		if err != nil {
			return nil, fmt.Errorf("detection %d: %w", i, err)
		}
		if d.Box != nil {
			r.box = *d.Box
		} else {
			r.box = d.Mask.Box()
		}
		if detections[0].Box != nil {
			r.area = r.box[2] * r.box[3]
		} else {
			r.area = float64(d.Mask.Area())
		}
		switch {
		case d.Mask != nil:
			r.mask = *d.Mask
		case kind == Masks:
			if r.mask, err = rle.FromBox(size.Height, size.Width, r.box); err != nil {
				return nil, fmt.Errorf("detection %d: %w", i, err)
			}
		}
		regions[i] = r
	}
	return regions, nil
}
