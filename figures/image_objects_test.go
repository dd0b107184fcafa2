package figures

import (
	"image"
	"image/color"
	"testing"

	"github.com/semcon/semcon/sccore/rle"
)

func TestDrawObjects(t *testing.T) {
	inside := make([]bool, 8*10)
	inside[3*10+4] = true
	mask, err := rle.Encode(8, 10, inside)
	if err != nil {
		t.Fatal(err)
	}
	ground := image.NewRGBA(image.Rect(0, 0, 10, 8))
	front, behind := ClassColour(1), ClassColour(2)
	drawn := DrawObjects(ground, []Object{{Box: [4]float64{2, 1, 6, 5}, Mask: mask}, {Box: [4]float64{2, 1, 12, 7}, Class: 1}}, 2)
	for at, want := range map[image.Point]color.RGBA{
		{4, 2}:   front,                            // The corner of both boxes, where the first one is on top.
		{12, 10}: front,                            // The other corner of the first one.
		{19, 14}: behind,                           // A box that sticks out ends with the image.
		{8, 6}:   mixed(color.RGBA{A: 255}, front), // Inside the mask.
		{10, 8}:  {},                               // Inside the box alone.
	} {
		if got := drawn.RGBAAt(at.X, at.Y); got != want {
			t.Errorf("at %v: %v, want %v", at, got, want)
		}
	}
	// A label beyond the border is moved into the picture.
	labelled := DrawObjects(image.NewRGBA(image.Rect(0, 0, 60, 30)), []Object{{Box: [4]float64{55, 28, 59, 29}, Label: "cat 0.9"}}, 1)
	if got := labelled.RGBAAt(59, 17); got != front {
		t.Errorf("the label's ground is %v, want %v", got, front)
	}
	// What has no size of its own, and no mask of the image's size, is no failure.
	DrawObjects(ground, []Object{{Mask: rle.Mask{}}, {Box: [4]float64{-5, -5, -1, -1}, Label: "x"}}, 1)
}
