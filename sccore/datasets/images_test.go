package datasets

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// labelled returns a set of 1×1 images with these labels; image i is grey i.
func labelled(labels ...int32) *Images {
	im := &Images{Name: "x", Height: 1, Width: 1, Labels: labels, Classes: []string{"a", "b", "c"}}
	for i := range labels {
		im.Pixels = append(im.Pixels, byte(i), byte(i), byte(i))
	}
	im.Identify("x")
	return im
}

// noise returns n images of size×size random pixels.
func noise(n, size int, seed uint64) *Images {
	random := rand.New(rand.NewPCG(seed, 0))
	im := &Images{Name: "noise", Height: size, Width: size, Labels: make([]int32, n), Classes: []string{"noise"}, Pixels: make([]uint8, n*size*size*3)}
	for i := range im.Pixels {
		im.Pixels[i] = uint8(random.Uint32())
	}
	im.Identify("noise")
	return im
}

func TestSubsetTakesTheFirstOfEachClass(t *testing.T) {
	im := labelled(0, 0, 0, 1, 0, 2, 1, 1, 2)
	for n, want := range map[int][]int{
		0: nil, 1: {0}, 3: {0, 3, 5}, 4: {0, 1, 3, 5}, 6: {0, 1, 3, 5, 6, 8}, 8: {0, 1, 2, 3, 5, 6, 7, 8}, 9: {0, 1, 2, 3, 4, 5, 6, 7, 8},
	} {
		head := im.Subset(n)
		var got []int
		for i := range head.Len() {
			got = append(got, int(head.At(i)[0]))
			if head.Labels[i] != im.Labels[got[i]] {
				t.Errorf("head of %d: image %d has label %d, want %d", n, i, head.Labels[i], im.Labels[got[i]])
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("head of %d: images %v, want %v", n, got, want)
		}
	}
	if im.Subset(100) != im {
		t.Error("a head longer than the set is not the set")
	}
	if head := im.Subset(3); !strings.Contains(head.Identity, im.Identity) || !strings.Contains(head.Identity, "): 3 images 1×1") {
		t.Errorf("identity %q", head.Identity)
	}
}

func TestIdentityFollowsContent(t *testing.T) {
	im := labelled(0, 1, 2)
	pixel, label := labelled(0, 1, 2), labelled(0, 2, 1)
	pixel.Pixels[4]++
	pixel.Identify("x")
	if same := labelled(0, 1, 2); same.Identity != im.Identity {
		t.Errorf("equal sets are %q and %q", same.Identity, im.Identity)
	}
	if im.Identity == pixel.Identity || im.Identity == label.Identity || pixel.Identity == label.Identity {
		t.Errorf("different sets share an identity: %q, %q, %q", im.Identity, pixel.Identity, label.Identity)
	}
	// printf '\0\0\0\1\1\1\2\2\2\0\0\0\0\1\0\0\0\2\0\0\0' | sha256sum
	if want := "x: 3 images 1×1, 3 classes, sha256 d29310c77cd379f0"; im.Identity != want {
		t.Errorf("identity %q, want %q", im.Identity, want)
	}
}
