package datasets

import "fmt"

// Spread returns at most the given number of the indices 0 to n-1, evenly spread and ascending. If most is 0, it returns all.
func Spread(n, most int) []int {
	if most == 0 || most > n {
		most = n
	}
	places := make([]int, most)
	for i := range places {
		places[i] = i * n / most
	}
	return places
}

// Pick returns the images at the given places, in their order. Its identity says which they are.
func (p *ImageFolder) Pick(places []int) *ImageFolder {
	if len(places) == p.Len() {
		return p
	}
	picked := *p
	picked.files = nil
	for _, i := range places {
		picked.files = append(picked.files, p.files[i])
	}
	picked.Identity = fmt.Sprintf("%d spread evenly of (%s)", len(places), p.Identity)
	return &picked
}

// Pick returns the images at the given places, in their order. Its identity says which they are.
func (s *Segmentation) Pick(places []int) *Segmentation {
	if len(places) == s.Len() {
		return s
	}
	picked := *s
	picked.count = len(places)
	picked.read = func(i int) (*SegmentedImage, error) { return s.read(places[i]) }
	picked.Identity = fmt.Sprintf("%d spread evenly of (%s)", len(places), s.Identity)
	return &picked
}
