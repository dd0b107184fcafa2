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

func TestHoldOut(t *testing.T) {
	labels := make([]int32, 0, 60)
	for i := range 60 { // 30, 20 and 10 images of the classes.
		labels = append(labels, []int32{0, 0, 0, 1, 1, 2}[i%6])
	}
	im := labelled(labels...)
	rest, held := im.HoldOut(0.29)
	if held.Len() != 8+5+2 || held.Len() != im.HeldOut(0.29) || rest.Len()+held.Len() != im.Len() {
		t.Fatalf("%d images are held out and %d not; %d were announced", held.Len(), rest.Len(), im.HeldOut(0.29))
	}
	seen, counts := map[byte]bool{}, make([]int, 3)
	for part, images := range []*Images{rest, held} {
		for i := range images.Len() {
			place := images.At(i)[0]
			if seen[place] || images.Labels[i] != im.Labels[place] || i > 0 && place < images.At(i - 1)[0] {
				t.Errorf("image %d of part %d is image %d with label %d", i, part, place, images.Labels[i])
			}
			seen[place] = true
			if part == 1 {
				counts[images.Labels[i]]++
			}
		}
	}
	if want := []int{8, 5, 2}; !slices.Equal(counts, want) {
		t.Errorf("%v images of the classes are held out, want %v", counts, want)
	}
	againRest, again := im.HoldOut(0.29)
	if again.Identity != held.Identity || againRest.Identity != rest.Identity || held.Identity == rest.Identity {
		t.Errorf("drawn twice: %q and %q", held.Identity, again.Identity)
	}
	for i := range im.Pixels { // Other pixels, the same draw.
		im.Pixels[i] += 100
	}
	for i, other := 0, second(im.HoldOut(0.29)); i < held.Len(); i++ {
		if other.At(i)[0] != held.At(i)[0]+100 {
			t.Fatal("the draw depends on the pixels")
		}
	}
	if im.HeldOut(0.29) != 15 || im.HeldOut(0) != 0 || im.HeldOut(0.5) != 30 || labelled(0, 1).HeldOut(0.5) != 0 {
		t.Errorf("held out: %d, %d, %d", im.HeldOut(0.29), im.HeldOut(0), im.HeldOut(0.5))
	}
	hundred := make([]int32, 100)
	if n := labelled(hundred...).HeldOut(0.29); n != 29 {
		t.Errorf("0.29 of 100 images are %d", n)
	}
}

func TestSharesOfImages(t *testing.T) {
	labels := make([]int32, 0, 60)
	for i := range 60 { // 30, 20 and 10 images of the classes.
		labels = append(labels, []int32{0, 0, 0, 1, 1, 2}[i%6])
	}
	im, seen := labelled(labels...), map[byte]bool{}
	for share := range 4 {
		part := im.Share(share, 4)
		counts := make([]int, 3)
		for i := range part.Len() {
			place := part.At(i)[0]
			if seen[place] || part.Labels[i] != im.Labels[place] {
				t.Errorf("image %d of share %d is image %d with label %d, or in two shares", i, share, place, part.Labels[i])
			}
			seen[place] = true
			counts[part.Labels[i]]++
		}
		if want := []int{7, 5, 2}; !slices.Equal(counts, want) {
			t.Errorf("share %d has %v images of the classes, want %v", share, counts, want)
		}
		if again := im.Share(share, 4); again.Identity != part.Identity || share > 0 && part.Identity == im.Share(0, 4).Identity {
			t.Errorf("share %d, drawn twice: %q and %q", share, part.Identity, again.Identity)
		}
	}
	if im.Share(0, 1) != im {
		t.Error("the only share is not the set")
	}
	defer func() {
		if recover() == nil {
			t.Error("eleven shares of ten images of a class")
		}
	}()
	im.Share(0, 11)
}

func TestRepeat(t *testing.T) {
	im := labelled(0, 1, 2)
	more := im.Repeat(7)
	for i := range 7 {
		if more.Labels[i] != im.Labels[i%3] || !slices.Equal(more.At(i), im.At(i%3)) {
			t.Errorf("image %d of 7 is not image %d of 3", i, i%3)
		}
	}
	if more.Len() != 7 || more.Identity == im.Identity || im.Repeat(3) != im || im.Repeat(0) != im {
		t.Errorf("%d images %q of %q", more.Len(), more.Identity, im.Identity)
	}
}

func second[A, B any](_ A, b B) B { return b }

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
