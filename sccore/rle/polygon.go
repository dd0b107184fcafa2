package rle

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Polygons are drawn on a grid this many times finer than the pixels.
const upsampling = 5

// maxOutline is the longest outline that is drawn, in points of the fine grid. It bounds time and memory, and is 250 times around an image of
// 800×800 pixels.
const maxOutline = 1 << 22

// FromPolygons returns the union of polygons, each a list x, y, x, y, … of at least three corners in pixels. Corners may lie outside the image. The rounding is
// as in maskApi.c, which pycocotools uses. A polygon alone is filled by the even-odd rule.
func FromPolygons(height, width int, polygons [][]float64) (Mask, error) {
	if err := checkSize(height, width); err != nil {
		return Mask{}, err
	}
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

type gridPoint struct{ x, y int }

// onFineGrid returns the corners on the fine grid, the first one again at the end, and the length of the outline, +Inf where a corner is too far away
// to be a number of the grid.
func onFineGrid(polygon []float64) (corners []gridPoint, length float64) {
	snap := func(v float64) int {
		fine := float64(upsampling*v) + 0.5
		if math.Abs(fine) >= 1<<30 {
			length = math.Inf(1)
			return 0
		}
		return int(fine) // Towards 0, as C does it.
	}
	for i := 0; i < len(polygon); i += 2 {
		corners = append(corners, gridPoint{snap(polygon[i]), snap(polygon[i+1])})
	}
	corners = append(corners, corners[0])
	for i, c := range corners[1:] {
		length += float64(max(distance(c.x, corners[i].x), distance(c.y, corners[i].y)) + 1)
	}
	return corners, length
}

func distance(a, b int) int { return max(a-b, b-a) }

// fill encodes one polygon. Where its outline crosses the middle of a column of pixels, the inside begins or ends.
func fill(height, width int, corners []gridPoint) Mask {
	var crossings []uint32
	var last gridPoint
	for i := range len(corners) - 1 {
		first := i == 0
		eachPoint(corners[i], corners[i+1], func(p gridPoint) {
			if !first && p.x != last.x {
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
func eachPoint(a, b gridPoint, each func(gridPoint)) {
	dx, dy := distance(a.x, b.x), distance(a.y, b.y)
	wide := dx >= dy
	flip := wide && a.x > b.x || !wide && a.y > b.y // Both directions of an edge have the same points.
	if flip {
		a, b = b, a
	}
	for d := range max(dx, dy) + 1 {
		t := d
		if flip {
			t = max(dx, dy) - d
		}
		p := a // An edge of one point has no slope.
		switch {
		case wide && dx > 0:
			slope := float64(b.y-a.y) / float64(dx)
			p = gridPoint{a.x + t, int(float64(a.y) + float64(slope*float64(t)) + 0.5)}
		case !wide:
			slope := float64(b.x-a.x) / float64(dy)
			p = gridPoint{int(float64(a.x) + float64(slope*float64(t)) + 0.5), a.y + t}
		}
		each(p)
	}
}

// crossing returns where the step between two points of neighbouring columns of the fine grid crosses the middle of a column of pixels: the number of
// the first pixel below it, counted down the columns. Most steps cross none.
func crossing(from, to gridPoint, height, width int) (at uint32, ok bool) {
	x := float64(to.x)
	if to.x > from.x {
		x--
	}
	x = (x+0.5)/upsampling - 0.5
	if math.Floor(x) != x || x < 0 || x > float64(width-1) {
		return 0, false
	}
	y := (float64(min(from.y, to.y))+0.5)/upsampling - 0.5
	y = math.Ceil(min(max(y, 0), float64(height)))
	return uint32(int(x)*height + int(y)), true
}
