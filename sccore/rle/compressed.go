package rle

import "fmt"

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
