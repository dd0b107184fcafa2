package detection

import (
	"math"
	"slices"
	"strings"
	"testing"
)

func TestPasteAgreesWithDetectron2(t *testing.T) {
	var cases []struct {
		Size   int
		Box    [4]float32
		Mask   []float32
		Pixels []string
	}
	readGolden(t, "paste.json", &cases)
	if len(cases) != 7 {
		t.Fatalf("%d cases, want 7", len(cases))
	}
	for i, c := range cases {
		height, width := len(c.Pixels), len(c.Pixels[0])
		pixels := Paste(c.Mask, c.Size, c.Box, height, width)
		var drawn strings.Builder
		for _, inside := range pixels {
			pixel := byte('.')
			if inside {
				pixel = '#'
			}
			drawn.WriteByte(pixel)
		}
		if want := strings.Join(c.Pixels, ""); drawn.String() != want {
			t.Errorf("case %d: pasted\n%s, want\n%s", i, drawn.String(), want)
		}
	}
}

func TestPasteOfOddInput(t *testing.T) {
	nan := float32(math.NaN())
	for _, box := range [][4]float32{{3, 3, 3, 9}, {0, 0, nan, 1}, {nan, 0, 1, 1}, {0, nan, 1, 1}, {0, 0, 1, nan}} {
		if slices.Contains(Paste([]float32{1}, 1, box, 10, 10), true) {
			t.Errorf("a box without area has pixels: %v", box)
		}
	}
	// A box far larger than its image costs no more than the image.
	pixels := Paste([]float32{1, 1, 1, 1}, 2, [4]float32{-1e30, -1e30, 1e30, 1e30}, 4, 4)
	if !pixels[5] {
		t.Errorf("pasted %v", pixels)
	}
}
