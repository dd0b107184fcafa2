package rle

import (
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
	inside, run := false, uint32(0)
	for x := range width {
		for y := range height {
			if pixels[y*width+x] != inside {
				m.counts = append(m.counts, run)
				inside, run = !inside, 0
			}
			run++
		}
	}
	m.counts = append(m.counts, run)
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
