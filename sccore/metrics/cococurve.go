package metrics

import (
	"cmp"
	"slices"
	"sort"
)

// cocoAreas are the ranges of areas in pixels: all, small, medium and large, with both ends.
var cocoAreas = [4][2]float64{{0, 1e10}, {0, 32 * 32}, {32 * 32, 96 * 96}, {96 * 96, 1e10}}

// cocoMean sums numbers for each IoU threshold over the categories that have them.
type cocoMean struct {
	sums       [len(cocoIoUs)]float64
	categories int
}

func (m *cocoMean) add(values [len(cocoIoUs)]float64) {
	m.categories++
	for i, v := range values {
		m.sums[i] += v
	}
}

// over returns the mean over categories and the given thresholds, -1 without any category.
func (m *cocoMean) over(thresholds ...int) float64 {
	if m.categories == 0 {
		return -1
	}
	sum := 0.0
	for _, i := range thresholds {
		sum += m.sums[i]
	}
	return sum / float64(len(thresholds)*m.categories)
}

// cocoMeans are all means that a result is made of.
type cocoMeans struct {
	precision, recall [len(cocoAreas)]cocoMean // With 100 detections.
	recall1, recall10 cocoMean                 // Of all areas.
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
		if objects == 0 {
			continue
		}
		precision, recall := curve(cells, matched, objects, maxDetections)
		m.precision[i].add(precision)
		m.recall[i].add(recall)
		if i == 0 {
			_, recall = curve(cells, matched, objects, 1)
			m.recall1.add(recall)
			_, recall = curve(cells, matched, objects, 10)
			m.recall10.add(recall)
		}
	}
}

func (m *cocoMeans) result() COCOAP {
	all := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
	return COCOAP{
		AP:       m.precision[0].over(all...),
		AP50:     m.precision[0].over(0),
		AP75:     m.precision[0].over(5),
		APSmall:  m.precision[1].over(all...),
		APMedium: m.precision[2].over(all...),
		APLarge:  m.precision[3].over(all...),
		AR1:      m.recall1.over(all...),
		AR10:     m.recall10.over(all...),
		AR100:    m.recall[0].over(all...),
		ARSmall:  m.recall[1].over(all...),
		ARMedium: m.recall[2].over(all...),
		ARLarge:  m.recall[3].over(all...),
	}
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
