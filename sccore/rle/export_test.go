package rle

// Intersection returns the pixels that are in all of the masks, as pycocotools merges them too.
func Intersection(masks ...Mask) (Mask, error) {
	return merge(masks, func(a, b bool) bool { return a && b })
}
