package metrics

import (
	"cmp"
	"slices"

	"github.com/semcon/semcon/sccore/rle"
)

// cocoRegion is a detected or an annotated object.
type cocoRegion struct {
	id    int64 // Of an annotation.
	score float64
	box   [4]float64
	mask  rle.Mask
	area  float64
	crowd bool
}

type cocoCellKey struct{ category, image int64 }

// cocoCell holds what one image has of one category.
type cocoCell struct {
	key      cocoCellKey
	truth    []cocoRegion // In the file's order.
	detected []cocoRegion // By descending score, at most 100.
	ious     [][]float64  // [detected][truth].
}

const maxDetections = 100

// prepare sorts the detections and compares them with the truth. Masks are not needed afterwards.
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
	for _, regions := range [][]cocoRegion{c.truth, c.detected} {
		for i := range regions {
			regions[i].mask = rle.Mask{}
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

// cocoIoUs are the thresholds of IoU from 0.5 to 0.95, and cocoRecalls the sampled recalls from 0 to 1, with the last digits of numpy.linspace.
var (
	cocoIoUs    = linspace[[10]float64](0.5, 0.95)
	cocoRecalls = linspace[[101]float64](0, 1)
)

func linspace[T [10]float64 | [101]float64](start, stop float64) (out T) {
	step := (stop - start) / float64(len(out)-1)
	for i := range len(out) - 1 {
		out[i] = float64(float64(i)*step) + start
	}
	out[len(out)-1] = stop
	return out
}

// matches is what one IoU threshold makes of a cell's detections.
type matches struct {
	matched, ignored [maxDetections]bool
}

// match gives detections, from the highest score on, the free annotation that they agree with best. Annotations that are ignored, because they are
// crowds or of areas outside the range, come last; detections that get one are ignored too, and so are those outside the range that get none. A crowd
// is never taken. It also returns the number of annotations that are not ignored.
func (c *cocoCell) match(area [2]float64) (byIoU [len(cocoIoUs)]matches, objects int) {
	outside := func(r cocoRegion) bool { return r.area < area[0] || r.area > area[1] }
	var order, ignored []int // Of annotations.
	for t, truth := range c.truth {
		if truth.crowd || outside(truth) {
			ignored = append(ignored, t)
		} else {
			order = append(order, t)
		}
	}
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
