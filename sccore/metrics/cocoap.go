package metrics

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/dsnet/try"
	"github.com/samber/lo"
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

// cocoNumbers says what the numbers are, in the order of pycocotools' stats.
var cocoNumbers = [12]struct {
	title, iou, area string
	areas            int   // Of cocoAreas.
	detections       int   // For each image and category.
	thresholds       []int // Of cocoIoUs.
}{
	{precisionTitle, "0.50:0.95", "all", 0, 100, allIoUs},
	{precisionTitle, "0.50", "all", 0, 100, []int{0}},
	{precisionTitle, "0.75", "all", 0, 100, []int{5}},
	{precisionTitle, "0.50:0.95", "small", 1, 100, allIoUs},
	{precisionTitle, "0.50:0.95", "medium", 2, 100, allIoUs},
	{precisionTitle, "0.50:0.95", "large", 3, 100, allIoUs},
	{recallTitle, "0.50:0.95", "all", 0, 1, allIoUs},
	{recallTitle, "0.50:0.95", "all", 0, 10, allIoUs},
	{recallTitle, "0.50:0.95", "all", 0, 100, allIoUs},
	{recallTitle, "0.50:0.95", "small", 1, 100, allIoUs},
	{recallTitle, "0.50:0.95", "medium", 2, 100, allIoUs},
	{recallTitle, "0.50:0.95", "large", 3, 100, allIoUs},
}

const precisionTitle, recallTitle = "Average Precision  (AP)", "Average Recall     (AR)"

var allIoUs = []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}

func (r *COCOAP) fields() [len(cocoNumbers)]*float64 {
	return [...]*float64{&r.AP, &r.AP50, &r.AP75, &r.APSmall, &r.APMedium, &r.APLarge, &r.AR1, &r.AR10, &r.AR100, &r.ARSmall, &r.ARMedium, &r.ARLarge}
}

// Numbers returns the 12 numbers in the order of pycocotools' stats.
func (r COCOAP) Numbers() (all [len(cocoNumbers)]float64) {
	for i, field := range r.fields() {
		all[i] = *field
	}
	return all
}

// String returns the table that pycocotools prints, of 12 lines.
func (r COCOAP) String() string {
	var table strings.Builder
	for i, n := range cocoNumbers {
		fmt.Fprintf(&table, " %s @[ IoU=%-9s | area=%6s | maxDets=%3d ] = %0.3f\n", n.title, n.iou, n.area, n.detections, r.Numbers()[i])
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
func EvaluateCOCO(truth *datasets.Instances, detections []Detection, kind COCOKind) (_ COCOAP, err error) {
	defer try.Handle(&err)
	regions := try.E1(detectedRegions(truth, detections, kind))
	byCategory := map[int64]map[int64]*cocoCell{}
	cellOf := func(category, image int64) *cocoCell {
		if byCategory[category] == nil {
			byCategory[category] = map[int64]*cocoCell{}
		}
		cells := byCategory[category]
		if cells[image] == nil {
			cells[image] = &cocoCell{image: image}
		}
		return cells[image]
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
	var total cocoMeans
	categories := slices.SortedFunc(slices.Values(truth.Categories), func(a, b datasets.ObjectCategory) int { return datasets.CompareIDs(a.ID, b.ID) })
	for _, category := range categories {
		of := slices.SortedFunc(maps.Values(byCategory[category.ID]), func(a, b *cocoCell) int { return datasets.CompareIDs(a.image, b.image) })
		for _, c := range of {
			if err := c.prepare(kind); err != nil {
				return COCOAP{}, fmt.Errorf("image %d: %w", c.image, err)
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
		err := d.check(size)
		switch {
		case !known:
			err = fmt.Errorf("%s has no image %d", truth.Name, d.Image)
		case detections[0].Box != nil && d.Box == nil:
			err = fmt.Errorf("it has no box, and detection 0 has one")
		case detections[0].Box == nil && d.Mask == nil:
			err = fmt.Errorf("it has no mask, and detection 0 has no box")
		case err == nil && d.Mask == nil && kind == Masks:
			r.mask, err = rle.FromBox(size.Height, size.Width, *d.Box)
		}
		if err != nil {
			return nil, fmt.Errorf("detection %d: %w", i, err)
		}
		if d.Mask != nil {
			r.mask, r.box, r.area = *d.Mask, d.Mask.Box(), float64(d.Mask.Area())
		}
		if d.Box != nil {
			r.box = *d.Box
		}
		if detections[0].Box != nil {
			r.area = r.box[2] * r.box[3]
		}
		regions[i] = r
	}
	return regions, nil
}

// cocoAreas are the ranges of areas in pixels: all, small, medium and large, with both ends.
var cocoAreas = [4][2]float64{{0, 1e10}, {0, 32 * 32}, {32 * 32, 96 * 96}, {96 * 96, 1e10}}

// cocoMeans sums each number, for each IoU threshold, over the categories that have objects of its area.
type cocoMeans [len(cocoNumbers)]struct {
	sums       [len(cocoIoUs)]float64
	categories int
}

// add adds a category, given as its cells in the order of images.
func (m *cocoMeans) add(cells []*cocoCell) {
	for i, area := range cocoAreas {
		matched := make([][len(cocoIoUs)]matches, len(cells))
		objects := 0
		for c, cell := range cells {
			var count int
			matched[c], count = cell.match(area)
			objects += count
		}
		for k, n := range cocoNumbers {
			if n.areas != i || objects == 0 {
				continue
			}
			precision, recall := curve(cells, matched, objects, n.detections)
			values := lo.Ternary(n.title == recallTitle, recall, precision)
			m[k].categories++
			for t, value := range values {
				m[k].sums[t] += value
			}
		}
	}
}

// result returns the means over categories and thresholds, -1 without any category.
func (m *cocoMeans) result() (r COCOAP) {
	for k, field := range r.fields() {
		sum := lo.SumBy(cocoNumbers[k].thresholds, func(t int) float64 { return m[k].sums[t] })
		if *field = -1; m[k].categories > 0 {
			*field = sum / float64(len(cocoNumbers[k].thresholds)*m[k].categories)
		}
	}
	return r
}

// curve pools the detections of all cells, the first so many of each, and returns for each IoU threshold the mean of the precision at 101 recalls and
// the largest recall.
func curve(cells []*cocoCell, matched [][len(cocoIoUs)]matches, objects, detections int) (precision, recall [len(cocoIoUs)]float64) {
	type place struct {
		cell, detection int
		score           float64
	}
	var order []place
	for c, cell := range cells {
		for d := range min(len(cell.detected), detections) {
			order = append(order, place{c, d, cell.detected[d].score})
		}
	}
	slices.SortStableFunc(order, func(a, b place) int { return cmp.Compare(b.score, a.score) })
	precisions, recalls := make([]float64, len(order)), make([]float64, len(order))
	for i := range cocoIoUs {
		right, wrong := 0.0, 0.0
		for at, p := range order {
			switch m := &matched[p.cell][i]; {
			case m.ignored[p.detection]:
			case m.matched[p.detection]:
				right++
			default:
				wrong++
			}
			recalls[at] = right / float64(objects)
			precisions[at] = right / (wrong + right + 0x1p-52)
		}
		if len(order) == 0 {
			continue
		}
		recall[i] = recalls[len(order)-1]
		for at := len(order) - 1; at > 0; at-- { // The largest precision at this recall or above.
			precisions[at-1] = max(precisions[at-1], precisions[at])
		}
		for _, want := range cocoRecalls {
			at := sort.SearchFloat64s(recalls, want)
			if at == len(order) {
				break
			}
			precision[i] += precisions[at]
		}
		precision[i] /= float64(len(cocoRecalls))
	}
	return precision, recall
}
