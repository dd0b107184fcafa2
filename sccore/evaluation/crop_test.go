package evaluation

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/settings"
)

// coordinates is an image whose pixels encode their position and whose mask marks the left and right halves.
func coordinates(height, width int) *datasets.SegmentedImage {
	a := &datasets.SegmentedImage{Height: height, Width: width}
	for y := range height {
		for x := range width {
			a.Pixels = append(a.Pixels, uint8(255*x/(width-1)), uint8(255*y/(height-1)), 0)
			a.Mask = append(a.Mask, uint8(2*x/width))
		}
	}
	return a
}

// TestCropsShowOnePlaceInImageAndLabels compares the labels of a crop with the position that its pixels encode.
func TestCropsShowOnePlaceInImageAndLabels(t *testing.T) {
	a := coordinates(90, 120)
	c := RandomResizedCrop{Size: 32, MinScale: 0.1}
	rng := rand.New(rand.NewPCG(1, 1))
	mirrored, shares := 0, []float64{}
	for range 200 {
		pixels, labels := c.Cut(a, 32, rng)
		if len(pixels) != 32*32*3 || len(labels) != 32*32 {
			t.Fatalf("%d bytes and %d labels", len(pixels), len(labels))
		}
		for p, label := range labels {
			x := pixels[3*p]
			if want := uint8(2 * (int(x) + 1) / 257); label != want && (x < 120 || x > 136) {
				t.Fatalf("at %d of 255 the label is %d", x, label)
			}
		}
		width, height := float64(pixels[31*3])-float64(pixels[0]), float64(pixels[31*32*3+1])-float64(pixels[1])
		if width < 0 {
			mirrored++
		}
		shares = append(shares, math.Abs(width)*height/255/255)
	}
	if mirrored < 70 || mirrored > 130 {
		t.Errorf("%d of 200 crops are mirrored", mirrored)
	}
	if least, most := slices.Min(shares), slices.Max(shares); least < 0.06 || least > 0.2 || most < 0.75 {
		t.Errorf("crops are from %.2f to %.2f of the image", least, most)
	}
	first, _ := c.Cut(a, 4, rand.New(rand.NewPCG(2, 3)))
	if again, _ := c.Cut(a, 4, rand.New(rand.NewPCG(2, 3))); !slices.Equal(first, again) {
		t.Error("the same random numbers draw another crop")
	}
}

func TestCropsOfLongImages(t *testing.T) {
	for _, size := range [][2]int{{1, 50}, {50, 1}, {1, 1}, {7, 300}} {
		a := &datasets.SegmentedImage{Height: size[0], Width: size[1], Pixels: make([]uint8, 3*size[0]*size[1]), Mask: make([]uint8, size[0]*size[1])}
		rng := rand.New(rand.NewPCG(1, 1))
		for range 50 {
			if pixels, labels := (RandomResizedCrop{8, 1}).Cut(a, 3, rng); len(pixels) != 192 || len(labels) != 9 {
				t.Fatalf("%v: %d bytes, %d labels", size, len(pixels), len(labels))
			}
		}
	}
}

func TestWholeImagesKeepTheirPixels(t *testing.T) {
	a := coordinates(5, 7)
	if pixels := part(a, a.Image().Rect, 5, 7); !slices.Equal(pixels, a.Pixels) {
		t.Error("an image of the wanted size has changed")
	}
}

func TestCropChecks(t *testing.T) {
	for want, c := range map[string]RandomResizedCrop{"train 0": {0, 1}, "min_area 0": {1, 0}, "min_area 1.5": {1, 1.5}, "NaN": {1, math.NaN()}} {
		if err := settings.Check(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}
