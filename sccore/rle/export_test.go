package rle

import "slices"

// Intersection returns the pixels that are in all of the masks, as pycocotools merges them too: what is outside the union of what is outside each.
func Intersection(masks ...Mask) (Mask, error) {
	outside := slices.Clone(masks)
	for i, m := range masks {
		outside[i] = m.complement()
	}
	united, err := Union(outside...)
	return united.complement(), err
}

func (m Mask) complement() Mask {
	if len(m.counts) > 1 && m.counts[0] == 0 {
		m.counts = m.counts[1:]
	} else {
		m.counts = slices.Concat([]uint32{0}, m.counts)
	}
	return m
}
