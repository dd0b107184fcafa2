package rle

import (
	"errors"
	"fmt"
)

// Union returns the pixels that are in any of the masks. They must have one size; no mask is an error.
func Union(masks ...Mask) (Mask, error) {
	return merge(masks, func(a, b bool) bool { return a || b })
}

// Intersection returns the pixels that are in all of the masks. They must have one size; no mask is an error.
func Intersection(masks ...Mask) (Mask, error) {
	return merge(masks, func(a, b bool) bool { return a && b })
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
