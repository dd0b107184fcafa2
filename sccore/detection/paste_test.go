package detection

import (
	"math"
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
		pixels, err := Paste(c.Mask, c.Size, c.Box, height, width)
		if err != nil {
			t.Fatal(err)
		}
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
	pixels, err := Paste([]float32{1}, 1, [4]float32{3, 3, 3, 9}, 10, 10)
	for _, inside := range pixels {
		if inside {
			t.Error("a box without area has pixels")
		}
	}
	if err != nil {
		t.Error(err)
	}
	nan := float32(math.NaN())
	for name, paste := range map[string]func() ([]bool, error){
		"mask of 3 values":  func() ([]bool, error) { return Paste(make([]float32, 3), 2, [4]float32{0, 0, 1, 1}, 2, 2) },
		"image of 0×2":      func() ([]bool, error) { return Paste(make([]float32, 4), 2, [4]float32{0, 0, 1, 1}, 0, 2) },
		"box [0 0 NaN 1]":   func() ([]bool, error) { return Paste(make([]float32, 4), 2, [4]float32{0, 0, nan, 1}, 2, 2) },
		"mask of 0 values,": func() ([]bool, error) { return Paste(nil, 0, [4]float32{0, 0, 1, 1}, 2, 2) },
	} {
		if _, err := paste(); err == nil || !strings.HasPrefix(err.Error(), name) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	// A box far larger than its image costs no more than the image.
	pixels, err = Paste([]float32{1, 1, 1, 1}, 2, [4]float32{-1e30, -1e30, 1e30, 1e30}, 4, 4)
	if err != nil || !pixels[5] {
		t.Errorf("pasted %v, error %v", pixels, err)
	}
}
