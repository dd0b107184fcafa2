package datasets

import (
	"slices"
	"strings"
	"testing"
)

// TestAnnotatedScenes: an image of 2×4 pixels fits into 4×4 as it is, and one of 8×4 is halved. Ignored pixels have label 0.
func TestAnnotatedScenes(t *testing.T) {
	const none = Ignore
	images := []*SegmentedImage{
		{Height: 2, Width: 4, Pixels: make([]uint8, 24), Mask: []uint8{0, 1, 2, none, 0, 1, 2, none}},
		{Height: 8, Width: 4, Pixels: make([]uint8, 96), Mask: slices.Concat(slices.Repeat([]uint8{2, 2, 1, 1}, 4), slices.Repeat([]uint8{0, 0, none, none}, 4))},
	}
	for i := range images[0].Pixels {
		images[0].Pixels[i] = uint8(i)
	}
	for i := range images[1].Pixels {
		images[1].Pixels[i] = 200
	}
	set := NewSegmentation("pictures", []string{"background", "cat", "dog"}, "", 2, func(i int) (*SegmentedImage, error) { return images[i], nil })
	scenes, err := set.AnnotatedScenes(4)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		size   Size
		labels []uint8
	}{
		{Size{2, 4}, []uint8{1, 2, 3, 0, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
		{Size{4, 2}, []uint8{3, 2, 0, 0, 3, 2, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0}},
	} {
		pixels, labels := slices.Repeat([]uint8{7}, 48), slices.Repeat([]uint8{7}, 16)
		size, err := scenes.Read(i, pixels, 4)
		if err != nil || size != want.size {
			t.Errorf("image %d: %v, %v, want %v", i, size, err, want.size)
		}
		if err := scenes.Labels(int32(i), labels, 4); err != nil || !slices.Equal(labels, want.labels) {
			t.Errorf("image %d: labels %v, %v, want %v", i, labels, err, want.labels)
		}
		for p := range 48 {
			row, column, inside := p/12, p%12/3, uint8(0)
			if row < size.Height && column < size.Width {
				if inside = 200; i == 0 {
					inside = images[0].Pixels[row*12+p%12]
				}
			}
			if pixels[p] != inside {
				t.Fatalf("image %d: byte %d is %d, want %d", i, p, pixels[p], inside)
			}
		}
	}
	if scenes.Len() != 2 || !slices.Equal(scenes.Classes, []string{"background", "cat", "dog"}) {
		t.Errorf("%d scenes of %q", scenes.Len(), scenes.Classes)
	}
	for _, err := range []error{scenes.Labels(0, nil, 8), func() error { _, err := scenes.Read(0, nil, 8); return err }()} {
		if err == nil || !strings.Contains(err.Error(), "canvases of 4 pixels were read, not of 8") {
			t.Error(err)
		}
	}
}
