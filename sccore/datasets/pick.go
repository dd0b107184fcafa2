package datasets

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/samber/lo"
)

// Spread returns at most the given number of the indices 0 to n-1, evenly spread and ascending. If most is 0, it returns all.
func Spread(n, most int) []int {
	if most == 0 || most > n {
		most = n
	}
	return lo.Times(most, func(i int) int { return i * n / most })
}

// Pick returns the images at the given places, in their order. Its identity says how many, and whether they are spread evenly.
func (p *ImageFolder) Pick(places []int) *ImageFolder {
	if len(places) == p.Len() {
		return p
	}
	return p.at(places, identityOf(places, p.Len(), p.Identity))
}

// at returns the images at some places, under an identity of their own.
func (p *ImageFolder) at(places []int, identity string) *ImageFolder {
	some := *p
	some.files, some.Identity = lo.Map(places, func(i, _ int) string { return p.files[i] }), identity
	return &some
}

// identityOf identifies the images at some places of a set of n.
func identityOf(places []int, n int, identity string) string {
	how := lo.Ternary(slices.Equal(places, Spread(n, len(places))), " spread evenly", "")
	return fmt.Sprintf("%d%s of (%s)", len(places), how, identity)
}

// HoldOut splits a folder in two: n of its images, evenly spread over the sorted paths and so over class folders, and the rest. n is between 1 and
// Len − 1.
func (p *ImageFolder) HoldOut(n int) (rest, held *ImageFolder) {
	places := Spread(p.Len(), n)
	others := slices.DeleteFunc(Spread(p.Len(), 0), func(i int) bool { _, is := slices.BinarySearch(places, i); return is })
	return p.at(others, fmt.Sprintf("all but %d spread evenly of (%s)", n, p.Identity)), p.Pick(places)
}

// Pick returns the images at the given places, in their order. Its identity says how many, and whether they are spread evenly.
func (s *Segmentation) Pick(places []int) *Segmentation {
	if len(places) == s.Len() {
		return s
	}
	return s.at(places, identityOf(places, s.Len(), s.Identity))
}

// at returns the images at some places, under an identity of their own.
func (s *Segmentation) at(places []int, identity string) *Segmentation {
	some := *s
	some.count, some.Identity = len(places), identity
	some.read = func(i int) (*SegmentedImage, error) { return s.read(places[i]) }
	return &some
}

// Share returns one of parts shares of the indices 0 to n-1, 0 ≤ share < parts. Shares differ in size by one index at most, have no index in common, and
// are the same in every run: the order that they are cut from is shuffled with a fixed seed. A single share is all indices in order.
func Share(n, share, parts int) (places []int) {
	if parts == 1 {
		return Spread(n, 0)
	}
	order := rand.New(rand.NewPCG(uint64(n), 0)).Perm(n)
	for i := share; i < n; i += parts {
		places = append(places, order[i])
	}
	return places
}

// Share returns one of parts shares of the images; see the function [Share]. The identity says which one it is. It is the set itself if parts is 1.
func (s *Segmentation) Share(share, parts int) *Segmentation {
	if parts == 1 {
		return s
	}
	return s.at(Share(s.count, share, parts), identityOfShare(s.Identity, share, parts))
}

// Share returns one of parts shares of the images; see the function [Share]. The identity says which one it is. It is the folder itself if parts is 1.
func (p *ImageFolder) Share(share, parts int) *ImageFolder {
	if parts == 1 {
		return p
	}
	return p.at(Share(p.Len(), share, parts), identityOfShare(p.Identity, share, parts))
}

func identityOfShare(identity string, share, parts int) string {
	return fmt.Sprintf("share %d of %d of (%s)", share+1, parts, identity)
}

// Only returns the same images with only some of the classes, in the order given. Pixels of other classes are ignored. It is for sets in which some classes
// hardly occur. The error names a class that the dataset does not have, or that is given twice.
func (s *Segmentation) Only(classes ...string) (*Segmentation, error) {
	var of [256]uint8
	for i := range of {
		of[i] = Ignore
	}
	only := *s
	only.Classes, only.colours = slices.Clone(classes), nil
	palette := s.Colours()
	for i, name := range classes {
		class := slices.Index(s.Classes, name)
		if class < 0 {
			return nil, fmt.Errorf("%s has no class %q", s.Name, name)
		}
		if of[class] != Ignore {
			return nil, fmt.Errorf("class %q is given twice", name)
		}
		of[class] = uint8(i)
		r, g, b, _ := palette[class].RGBA()
		only.colours = append(only.colours, r>>8<<16|g>>8<<8|b>>8)
	}
	if len(classes) == 0 {
		return nil, fmt.Errorf("%s: no classes to keep", s.Name)
	}
	only.read = func(i int) (*SegmentedImage, error) {
		a, err := s.read(i)
		if err != nil {
			return nil, err
		}
		kept := *a
		kept.Mask = make([]uint8, len(a.Mask))
		for p, class := range a.Mask {
			kept.Mask[p] = of[class]
		}
		return &kept, nil
	}
	only.Identity = fmt.Sprintf("classes %s of (%s)", strings.Join(classes, ", "), s.Identity)
	return &only, nil
}
