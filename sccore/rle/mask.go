// Package rle holds binary masks as COCO does: as the lengths of runs of pixels outside and inside, column by column. Pixels ([Encode]), polygons
// ([FromPolygons]), boxes ([FromBox]), runs ([FromCounts]) and COCO's compressed text ([Parse]) go in. Pixels, text, areas, boxes, unions
// and intersections over unions come out, equal to what pycocotools computes.
//
// It imports nothing of the project: package datasets reads annotations with it, and package metrics judges masks.
package rle

import (
	"errors"
	"fmt"
	"slices"
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
func FromCounts(height, width int, counts []uint32) (Mask, error) {
	if err := checkSize(height, width); err != nil {
		return Mask{}, err
	}
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
func Encode(height, width int, pixels []bool) (Mask, error) {
	if err := checkSize(height, width); err != nil {
		return Mask{}, err
	}
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

// Box returns the smallest box around the pixels inside, as COCO's x, y, width and height; zeros if there are none.
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

// The compressed text has a number for each run: the count itself for the first three, and the difference from the count two before it for the rest. A
// number is written 5 bits a character, lowest first, in two's complement. Bit 5 of a character says that more follow, and 48 is added to make it
// printable.
const (
	offset     = 48
	more       = 0x20
	negative   = 0x10 // In the last character of a number.
	digit      = 0x1f
	maxNumeral = 7 // Characters: 35 bits hold every difference of two counts.
)

// Parse reads COCO's compressed text of a mask, the "counts" of its JSON where they are a string.
func Parse(height, width int, text string) (Mask, error) {
	if err := checkSize(height, width); err != nil {
		return Mask{}, err
	}
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
func Union(masks ...Mask) (Mask, error) {
	return merge(masks, func(a, b bool) bool { return a || b })
}

func merge(masks []Mask, both func(a, b bool) bool) (Mask, error) {
	if len(masks) == 0 {
		return Mask{}, errors.New("mask: there is none to merge")
	}
	merged := masks[0]
	for _, m := range masks[1:] {
		out := Mask{height: m.height, width: m.width}
		if err := together(merged, m, func(a, b bool, count uint32) { out.add(both(a, b), count) }); err != nil {
			return Mask{}, err
		}
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
