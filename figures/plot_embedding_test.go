package figures

import (
	"image"
	"strings"
	"testing"
)

func TestEmbedding(t *testing.T) {
	f := Embedding{Title: "patches", X: []float64{0, 1, 1.001, 3}, Y: []float64{0, 2, 2, -1}, Class: []int{0, 3, 1, 3}, Classes: []string{"cat", "dog", "cow", "sky"}}
	svg, _ := picture(t, f)
	contains(t, svg, ">patches<", ">cat<", ">dog<", ">sky<")
	if strings.Contains(svg, ">cow<") {
		t.Error("a class that does not occur is in the legend")
	}
	if want := "x,y,class\n0,0,cat\n1,2,sky\n1.001,2,dog\n3,-1,sky\n"; f.CSV() != want {
		t.Errorf("%q", f.CSV())
	}
	for i := range f.X {
		f.Pictures = append(f.Pictures, noise(pictureSide-2*frameWidth, pictureSide-2*frameWidth, i))
	}
	svg, _ = picture(t, f)
	if drawn := strings.Count(svg, "<image "); drawn != 3 {
		t.Errorf("%d pictures drawn, want 3: the third would cover the second", drawn)
	}
	for want, bad := range map[string]Embedding{
		"no points":                 {},
		"1 x, 0 y, 1 classes":       {X: []float64{1}, Class: []int{0}},
		"point 0 has class 1 of 1":  {X: []float64{1}, Y: []float64{1}, Class: []int{1}, Classes: []string{"a"}},
		"1 x, 1 y, 1 classes and 2": {X: []float64{1}, Y: []float64{1}, Class: []int{0}, Classes: []string{"a"}, Pictures: make([]image.Image, 2)},
	} {
		if _, _, err := bad.Render(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
