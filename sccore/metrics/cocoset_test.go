package metrics_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/semcon/semcon/internal/testvalues"
	"github.com/semcon/semcon/sccore/rle"
)

// cocoSet draws annotations and detections as testdata/cocoap.py does, to the last byte.
type cocoSet struct {
	t                       *testing.T
	r                       testvalues.Integers
	style, grid             int
	fineScores              bool
	annotations, detections []string
}

// Styles of a set: what detections and annotations have.
const (
	_ = iota // Boxes.
	bothSet
	masksSet
	masksFirstSet // A detection with a mask alone is the first.
	boxesFirstSet // A box too, and masks now and then.
	manySet       // More than 100 detections of one image.
	unmaskedSet   // Annotations have no masks.
)

type setImage struct{ id, height, width int }

func drawCOCOSet(t *testing.T, seed int) (truth, detections string) {
	t.Helper()
	s := &cocoSet{t: t, r: testvalues.Integers(seed)}
	s.style = s.below(7)
	s.grid = []int{1, 10, 50, 100}[s.below(4)]
	var images []setImage
	var categories []int
	for k := range 1 + s.below(5) {
		images = append(images, setImage{7*k + s.below(7), 20 + s.below(140), 20 + s.below(140)})
	}
	if s.below(2) == 0 {
		slices.Reverse(images)
	}
	for k := range 1 + s.below(3) {
		categories = append(categories, 3*k+1+s.below(3))
	}
	if s.below(2) == 0 {
		slices.Reverse(categories)
	}
	first := 1
	if s.below(20) == 0 {
		first = 0
	}
	s.fineScores = s.below(2) == 1
	for _, im := range images {
		objects := s.below(4)
		if objects > 0 {
			objects = s.below(8)
		}
		for range objects {
			s.object(im, categories[s.below(len(categories))], first)
		}
		others := 120
		if s.style != manySet || s.below(2) != 0 {
			others = s.below(4)
		}
		for range others {
			category := categories[0]
			if s.style != manySet {
				category = categories[s.below(len(categories))]
			}
			s.detection(im, category, s.box(im))
		}
	}
	if len(s.detections) == 0 {
		s.detection(images[0], categories[0], s.box(images[0]))
	}
	var imageTexts, categoryTexts []string
	for _, im := range images {
		imageTexts = append(imageTexts, fmt.Sprintf(`{"id":%d,"height":%d,"width":%d}`, im.id, im.height, im.width))
	}
	for _, c := range categories {
		categoryTexts = append(categoryTexts, fmt.Sprintf(`{"id":%d}`, c))
	}
	truth = fmt.Sprintf(`{"images":[%s],"annotations":[%s],"categories":[%s]}`,
		strings.Join(imageTexts, ","), strings.Join(s.annotations, ","), strings.Join(categoryTexts, ","))
	return truth, "[" + strings.Join(s.detections, ",") + "]"
}

func (s *cocoSet) below(n int) int { return s.r.Below(n) }

// box draws x, y, width and height in tenths of a pixel.
func (s *cocoSet) box(im setImage) [4]int {
	x := s.below(im.width*10) / s.grid * s.grid
	y := s.below(im.height*10) / s.grid * s.grid
	w := s.side(im.width)
	return [4]int{x, y, w, s.side(im.height)}
}

func (s *cocoSet) side(longest int) int {
	if s.below(15) == 0 {
		return 0
	}
	longest = []int{20, 60, longest}[s.below(3)]
	return s.below(longest*10) / s.grid * s.grid
}

// object adds an annotation and the detections near it.
func (s *cocoSet) object(im setImage, category, first int) {
	b := s.box(im)
	product := b[2] * b[3]
	area := []int{product, product, product, 102400, 921600, 0}[s.below(6)]
	text := fmt.Sprintf(`{"id":%d,"image_id":%d,"category_id":%d,"bbox":%s,"area":%.2f`,
		first+len(s.annotations), im.id, category, tenths(b[:]), float64(area)/100)
	crowd := 0
	if s.below(6) == 0 {
		crowd = 1
	}
	text += fmt.Sprintf(`,"iscrowd":%d`, crowd)
	if s.below(8) == 0 {
		text += `,"ignore":1`
	}
	if s.style != unmaskedSet {
		text += `,"segmentation":` + s.segmentation(s.below(4), b, im)
	}
	s.annotations = append(s.annotations, text+"}")
	for range s.below(4) {
		moved := b
		for i := range 3 {
			moved[i] += (s.below(5) - 2) * s.grid
		}
		moved[2] = max(moved[2], 0)
		if s.below(4) == 0 {
			moved = b
		}
		s.detection(im, category, moved)
	}
}

func (s *cocoSet) detection(im setImage, category int, b [4]int) {
	if s.below(30) == 0 {
		category = 99
	}
	score := ""
	if s.fineScores {
		score = fmt.Sprintf("0.%03d", s.below(1000))
	} else {
		score = fmt.Sprintf("0.%d", s.below(10))
	}
	text := fmt.Sprintf(`{"image_id":%d,"category_id":%d,"score":%s`, im.id, category, score)
	masked := s.style == masksSet || s.style == masksFirstSet
	if !masked || s.style == masksFirstSet && len(s.detections) > 0 && s.below(2) == 1 {
		text += `,"bbox":` + tenths(b[:])
	}
	if masked {
		text += `,"segmentation":` + s.segmentation(3, b, im)
	} else if s.style == bothSet || s.style == boxesFirstSet && s.below(2) == 1 {
		text += `,"segmentation":` + s.segmentation(s.below(4), b, im)
	}
	s.detections = append(s.detections, text+"}")
}

func tenths(values []int) string {
	var texts []string
	for _, v := range values {
		texts = append(texts, fmt.Sprintf("%.1f", float64(v)/10))
	}
	return "[" + strings.Join(texts, ",") + "]"
}

// segmentation draws a mask: a rectangle, polygons, counts or compressed text.
func (s *cocoSet) segmentation(kind int, b [4]int, im setImage) string {
	x, y, w, h := b[0], b[1], b[2], b[3]
	rectangle := tenths([]int{x, y, x, y + h, x + w, y + h, x + w, y})
	switch kind {
	case 0:
		return "[" + rectangle + "]"
	case 1:
		var polygon []int
		for range 3 + s.below(5) {
			polygon = append(polygon, x+s.below(w+1))
			polygon = append(polygon, y+s.below(h+1))
		}
		if s.below(3) == 0 {
			return "[" + tenths(polygon) + "," + rectangle + "]"
		}
		return "[" + tenths(polygon) + "]"
	}
	counts := s.runs(b, im)
	var text []byte
	if kind == 2 {
		text, _ = json.Marshal(counts)
	} else {
		mask, err := rle.FromCounts(im.height, im.width, counts)
		if err != nil {
			s.t.Fatal(err)
		}
		text = strconv.AppendQuote(nil, mask.String())
	}
	return fmt.Sprintf(`{"size":[%d,%d],"counts":%s}`, im.height, im.width, text)
}

// runs draws a ragged rectangle.
func (s *cocoSet) runs(b [4]int, im setImage) (counts []uint32) {
	floor := func(v int) int {
		if v < 0 {
			v -= 9
		}
		return v / 10
	}
	end := 0
	for x := max(floor(b[0]), 0); x < min(floor(b[0]+b[2]), im.width); x++ {
		top := min(max(floor(b[1])+s.below(3), 0), im.height)
		bottom := min(max(floor(b[1]+b[3])-s.below(3), 0), im.height)
		if bottom <= top {
			continue
		}
		if start := x*im.height + top; len(counts) > 0 && start == end {
			counts[len(counts)-1] += uint32(bottom - top)
		} else {
			counts = append(counts, uint32(start-end), uint32(bottom-top))
		}
		end = x*im.height + bottom
	}
	if rest := im.height*im.width - end; rest > 0 {
		counts = append(counts, uint32(rest))
	}
	return counts
}
