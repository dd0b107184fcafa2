// Package rle holds binary masks as COCO does: as the lengths of runs of pixels outside and inside, column by column. Pixels ([Encode]), polygons
// ([FromPolygons]), boxes ([FromBox]), runs ([FromCounts]) and COCO's compressed text ([Parse]) go in. Pixels, text, areas, boxes, unions
// and intersections over unions come out, equal to what pycocotools computes.
//
// It imports nothing of the project: package datasets reads annotations with it, and package metrics judges masks.
package rle

import (
	"errors"
	"fmt"
	"image"
	"math"
	"slices"

	"github.com/dsnet/try"
	"github.com/samber/lo"
)

// MaxPixels is the largest height·width of a mask. It bounds the memory of [Mask.Pixels].
const MaxPixels = 1 << 28

// Mask is a binary mask of at least one pixel. It is immutable.
type Mask struct {
	height, width int
	counts        []uint32 // Of pixels outside, inside, outside, … down the columns. Only the first may be 0. The sum is height·width.
}

// FromCounts returns the mask with these runs: pixels outside, inside, outside, …, down the columns from left to right. The runs must have
// height·width pixels in all; runs of 0 pixels are allowed anywhere.
func FromCounts(height, width int, counts []uint32) (_ Mask, err error) {
	defer try.Handle(&err)
	try.E(checkSize(height, width))
	sum := 0
	for i, count := range counts {
		if sum += int(count); sum > height*width {
			return Mask{}, fmt.Errorf("mask: %d runs have more than the %d pixels of %d×%d", i+1, height*width, width, height)
		}
	}
	if sum < height*width {
		return Mask{}, fmt.Errorf("mask: the runs have %d pixels, not the %d of %d×%d", sum, height*width, width, height)
	}
	m := Mask{height, width, make([]uint32, 0, len(counts))}
	for i, count := range counts {
		m.add(i%2 == 1, count)
	}
	return m, nil
}

// Encode returns the mask of pixels, [height·width] and row-major, true inside.
func Encode(height, width int, pixels []bool) (_ Mask, err error) {
	defer try.Handle(&err)
	try.E(checkSize(height, width))
	if len(pixels) != height*width {
		return Mask{}, fmt.Errorf("mask: %d pixels are not %d×%d", len(pixels), width, height)
	}
	m := Mask{height: height, width: width}
	for x := range width {
		for y := range height {
			m.add(pixels[y*width+x], 1)
		}
	}
	return m, nil
}

// add appends a run, and joins it to the last one where both are inside or both outside.
func (m *Mask) add(inside bool, count uint32) {
	last := len(m.counts) - 1
	switch {
	case count == 0:
	case last < 0 && inside:
		m.counts = append(m.counts, 0, count)
	case last < 0 || (last%2 == 1) != inside:
		m.counts = append(m.counts, count)
	default:
		m.counts[last] += count
	}
}

func checkSize(height, width int) error {
	if height < 1 || width < 1 || height > MaxPixels/width {
		return fmt.Errorf("mask: %d×%d pixels, want at least 1×1 and at most %d in all", width, height, MaxPixels)
	}
	return nil
}

// Size returns the height and the width in pixels; zeros for the zero Mask, which is no mask.
func (m Mask) Size() (height, width int) { return m.height, m.width }

// Counts returns the lengths of the runs, as [FromCounts] takes them. Only the first may be 0.
func (m Mask) Counts() []uint32 { return slices.Clone(m.counts) }

// Pixels returns the pixels, [height·width] and row-major, true inside.
func (m Mask) Pixels() []bool {
	pixels := make([]bool, m.height*m.width)
	at := 0
	for i, count := range m.counts {
		for end := at + int(count); at < end; at++ {
			pixels[at%m.height*m.width+at/m.height] = i%2 == 1
		}
	}
	return pixels
}

// Area returns the number of pixels inside.
func (m Mask) Area() int {
	area := 0
	for i := 1; i < len(m.counts); i += 2 {
		area += int(m.counts[i])
	}
	return area
}

// Box returns the smallest box around the pixels inside, as COCO's x, y, width and height; zeros for an empty mask.
func (m Mask) Box() (box [4]float64) {
	if len(m.counts) < 2 {
		return box
	}
	left, right, top, bottom := m.width, 0, m.height, 0
	at := 0
	for i, count := range m.counts {
		first := at
		at += int(count)
		if i%2 == 0 {
			continue
		}
		last := at - 1
		left, right = min(left, first/m.height), max(right, last/m.height)
		if first/m.height == last/m.height {
			top, bottom = min(top, first%m.height), max(bottom, last%m.height)
		} else { // The run goes on at the top of the next column.
			top, bottom = 0, m.height-1
		}
	}
	return [4]float64{float64(left), float64(top), float64(right - left + 1), float64(bottom - top + 1)}
}

// The compressed text has a number for each run: the count itself for the first three, and the difference from the count two before it for the rest. A number
// is written 5 bits a character, lowest first, in two's complement. Bit 5 of a character says that more follow, and 48 is added to make it printable.
const (
	offset     = 48
	more       = 0x20
	negative   = 0x10 // In the last character of a number.
	digit      = 0x1f
	maxNumeral = 7 // Characters: 35 bits hold every difference of two counts.
)

// Parse reads COCO's compressed text of a mask, the "counts" of its JSON where they are a string.
func Parse(height, width int, text string) (_ Mask, err error) {
	defer try.Handle(&err)
	try.E(checkSize(height, width))
	var counts []uint32
	sum := int64(0)
	for at := 0; at < len(text); {
		number, start := int64(0), at
		for going := true; going; at++ {
			if at == len(text) || at-start == maxNumeral {
				return Mask{}, fmt.Errorf("mask: the number at character %d of the compressed text does not end", start)
			}
			if text[at] < offset || text[at] >= offset+2*more {
				return Mask{}, fmt.Errorf("mask: character %d of the compressed text, %q, is not between '0' and 'o'", at, text[at])
			}
			c := int64(text[at]) - offset
			number |= (c & digit) << (5 * (at - start))
			if going = c&more != 0; !going && c&negative != 0 {
				number |= -1 << (5 * (at - start + 1))
			}
		}
		if i := len(counts); i > 2 {
			number += int64(counts[i-2])
		}
		if sum += number; number < 0 || sum > int64(height)*int64(width) {
			return Mask{}, fmt.Errorf("mask: run %d of the compressed text has %d pixels, of %d×%d in all", len(counts), number, width, height)
		}
		counts = append(counts, uint32(number))
	}
	return FromCounts(height, width, counts)
}

// String returns COCO's compressed text, which [Parse] reads.
func (m Mask) String() string {
	var text []byte
	for i, count := range m.counts {
		number := int64(count)
		if i > 2 {
			number -= int64(m.counts[i-2])
		}
		for going := true; going; {
			c := byte(number & digit)
			number >>= 5
			if going = number != 0; c&negative != 0 {
				going = number != -1
			}
			if going {
				c |= more
			}
			text = append(text, c+offset)
		}
	}
	return string(text)
}

// Union returns the pixels that are in any of the masks. They must have one size; no mask is an error.
func Union(masks ...Mask) (_ Mask, err error) {
	defer try.Handle(&err)
	if len(masks) == 0 {
		return Mask{}, errors.New("mask: there is none to merge")
	}
	merged := masks[0]
	for _, m := range masks[1:] {
		out := Mask{height: m.height, width: m.width}
		try.E(together(merged, m, func(a, b bool, count uint32) { out.add(a || b, count) }))
		merged = out
	}
	return merged, nil
}

// together calls each for the runs of pixels that are alike in both masks, in their order.
func together(a, b Mask, each func(inA, inB bool, count uint32)) error {
	if a.height != b.height || a.width != b.width {
		return fmt.Errorf("mask: one has %d×%d pixels and another %d×%d", a.width, a.height, b.width, b.height)
	}
	var i, j int
	var doneA, doneB uint32 // Of runs i and j.
	for i < len(a.counts) && j < len(b.counts) {
		count := min(a.counts[i]-doneA, b.counts[j]-doneB)
		each(i%2 == 1, j%2 == 1, count)
		if doneA += count; doneA == a.counts[i] {
			i, doneA = i+1, 0
		}
		if doneB += count; doneB == b.counts[j] {
			j, doneB = j+1, 0
		}
	}
	return nil
}

// IoU returns the intersection over the union of a detected and a true mask of one size, from 0 to 1. For a crowd it is the share of the detection
// that lies inside the truth, because the detection is one of many objects there. It is 0 where the intersection is empty.
func IoU(detected, truth Mask, crowd bool) (float64, error) {
	var intersection, union uint32
	err := together(detected, truth, func(inD, inT bool, count uint32) {
		if inD && inT {
			intersection += count
		}
		if inD || inT && !crowd {
			union += count
		}
	})
	if err != nil || intersection == 0 {
		return 0, err
	}
	return float64(intersection) / float64(union), nil
}

// Polygons are drawn on a grid that is upsampling times finer than the pixels. maxOutline is the longest outline that is drawn, in points of this grid. It bounds
// time and memory, and is 250 times around an image of 800×800 pixels.
const upsampling, maxOutline = 5, 1 << 22

// FromPolygons returns the union of polygons, each a list x, y, x, y, … of at least three corners in pixels. Corners may lie outside the image. The rounding is
// as in maskApi.c, which pycocotools uses. A polygon alone is filled by the even-odd rule.
func FromPolygons(height, width int, polygons [][]float64) (_ Mask, err error) {
	defer try.Handle(&err)
	try.E(checkSize(height, width))
	if len(polygons) == 0 {
		return Mask{}, errors.New("mask: there is no polygon")
	}
	masks := make([]Mask, len(polygons))
	budget := maxOutline
	for i, polygon := range polygons {
		if err := CheckPolygon(polygon); err != nil {
			return Mask{}, fmt.Errorf("polygon %d: %w", i, err)
		}
		corners, length := onFineGrid(polygon)
		if length > float64(budget) {
			return Mask{}, fmt.Errorf("polygon %d: its outline is too long, more than %d pixels", i, maxOutline/upsampling)
		}
		budget -= int(length)
		masks[i] = fill(height, width, corners)
	}
	return Union(masks...)
}

// CheckPolygon says what keeps a list x, y, x, y, … from being a polygon: fewer than three corners, an odd number, a number that is not finite.
func CheckPolygon(polygon []float64) error {
	if len(polygon) < 6 || len(polygon)%2 != 0 {
		return fmt.Errorf("%d numbers, want x and y of at least 3 corners", len(polygon))
	}
	for _, v := range polygon {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("the number %g is not finite", v)
		}
	}
	return nil
}

// FromBox returns the mask of a box of x, y, width and height, as pycocotools draws it for a detection without a mask.
func FromBox(height, width int, box [4]float64) (Mask, error) {
	x1, y1 := box[0], box[1]
	x2, y2 := x1+box[2], y1+box[3]
	return FromPolygons(height, width, [][]float64{{x1, y1, x1, y2, x2, y2, x2, y1}})
}

// onFineGrid returns the corners on the fine grid, the first one again at the end, and the length of the outline, +Inf where a corner is too far away
// to be a number of the grid.
func onFineGrid(polygon []float64) (corners []image.Point, length float64) {
	snap := func(v float64) int {
		fine := float64(upsampling*v) + 0.5
		if math.Abs(fine) >= 1<<30 {
			length = math.Inf(1)
			return 0
		}
		return int(fine) // Towards 0, as C does it.
	}
	for i := 0; i < len(polygon); i += 2 {
		corners = append(corners, image.Pt(snap(polygon[i]), snap(polygon[i+1])))
	}
	corners = append(corners, corners[0])
	for i, c := range corners[1:] {
		length += float64(max(distance(c.X, corners[i].X), distance(c.Y, corners[i].Y)) + 1)
	}
	return corners, length
}

func distance(a, b int) int { return max(a-b, b-a) }

// fill encodes one polygon. Where its outline crosses the middle of a column of pixels, the inside begins or ends.
func fill(height, width int, corners []image.Point) Mask {
	var crossings []uint32
	var last image.Point
	for i := range len(corners) - 1 {
		first := i == 0
		eachPoint(corners[i], corners[i+1], func(p image.Point) {
			if !first && p.X != last.X {
				if at, ok := crossing(last, p, height, width); ok {
					crossings = append(crossings, at)
				}
			}
			first, last = false, p
		})
	}
	slices.Sort(crossings)
	m := Mask{height: height, width: width}
	at := uint32(0)
	for i, c := range append(crossings, uint32(height*width)) {
		m.add(i%2 == 1, c-at)
		at = c
	}
	return m
}

// eachPoint calls each for the points of the fine grid from a to b, both included.
func eachPoint(a, b image.Point, each func(image.Point)) {
	if distance(a.X, b.X) < distance(a.Y, b.Y) { // A steep edge is a flat one with its axes exchanged.
		swapped := func(p image.Point) image.Point { return image.Pt(p.Y, p.X) }
		eachPoint(swapped(a), swapped(b), func(p image.Point) { each(swapped(p)) })
		return
	}
	flip := a.X > b.X // Both directions of an edge have the same points.
	if flip {
		a, b = b, a
	}
	slope := float64(b.Y-a.Y) / float64(max(b.X-a.X, 1)) // An edge of one point has none.
	for d := range b.X - a.X + 1 {
		t := lo.Ternary(flip, b.X-a.X-d, d)
		each(image.Pt(a.X+t, int(float64(a.Y)+float64(slope*float64(t))+0.5)))
	}
}

// crossing returns where the step between two points of neighbouring columns of the fine grid crosses the middle of a column of pixels: the number of
// the first pixel below it, counted down the columns. Most steps cross none.
func crossing(from, to image.Point, height, width int) (at uint32, ok bool) {
	x := float64(to.X)
	if to.X > from.X {
		x--
	}
	x = (x+0.5)/upsampling - 0.5
	if math.Floor(x) != x || x < 0 || x > float64(width-1) {
		return 0, false
	}
	y := (float64(min(from.Y, to.Y))+0.5)/upsampling - 0.5
	y = math.Ceil(min(max(y, 0), float64(height)))
	return uint32(int(x)*height + int(y)), true
}
