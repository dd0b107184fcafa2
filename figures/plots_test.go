package figures

import (
	"image"
	"image/color"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/samber/lo"
)

func TestEmbedding(t *testing.T) {
	f := Embedding{Title: "patches", X: []float64{0, 1, 1.001, 3}, Y: []float64{0, 2, 2, -1}, Class: []int{0, 3, 1, 3}, Classes: []string{"cat", "dog", "cow", "sky"}}
	svg, _ := picture(t, f)
	contains(t, svg, ">patches<", ">cat<", ">dog<", ">sky<")
	if strings.Contains(svg, ">cow<") {
		t.Error("a class that does not occur is in the legend")
	}
	if want := "x,y,class\n0,0,cat\n1,2,sky\n1.001,2,dog\n3,-1,sky\n"; CSV(f) != want {
		t.Errorf("%q", CSV(f))
	}
	many := Embedding{X: make([]float64, 8), Y: make([]float64, 8), Class: lo.Range(8), Classes: lo.Times(8, strconv.Itoa)}
	for i := range many.X {
		many.X[i] = float64(i)
	}
	svg, _ = picture(t, many)
	many.Class[0], many.Class[7] = 7, 0
	if swapped, _ := picture(t, many); svg == swapped {
		t.Error("the first class looks like the eighth")
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
		if _, _, err := Render(bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// gains are what two methods gain, each with a series of its own for a point that stands apart.
func gains() Curves {
	return Curves{Title: "gain", X: "AUC", Y: "points", Levels: []float64{0}, Note: "hollow: real", Shift: 0.01, Series: []Series{
		{Name: "CoTAP", X: []float64{0.8, 1}, Values: [][]float64{{1, 2, 3}, {4, 5, 6}}, Bars: Intervals},
		{X: []float64{0.7}, Values: [][]float64{{-1, -2, -3}}, Bars: Intervals, Look: 1, Hollow: true, Apart: true},
		{Name: "BCE", X: []float64{1}, Values: [][]float64{{2}}, Bars: Intervals, Look: 2},
	}}
}

func TestIntervals(t *testing.T) {
	f := gains()
	svg, drawn := picture(t, f)
	contains(t, svg, ">gain<", ">AUC<", ">points<", ">CoTAP<", ">BCE<", ">hollow: real<")
	for i, name := range []string{"CoTAP", "BCE"} {
		if ink(drawn, hasColour(palette[i])) == 0 {
			t.Errorf("nothing has the colour of %s", name)
		}
	}
	contains(t, CSV(f), "series,x,y,label,sd,low,high,n,values,x_values\n", ",0.7,-2,,1,-4.484138,0.4841377,3,-1 -2 -3,\n", "BCE,1,2,,,,,1,2,\n")
	for name, series := range map[string]Series{"no gain": {Name: "CoTAP", X: []float64{1}}, "no x": {Name: "CoTAP", Values: [][]float64{{1}}}} {
		if _, _, err := Render(Curves{Series: []Series{series}}); err == nil || !strings.Contains(err.Error(), "CoTAP") {
			t.Errorf("%s: %v", name, err)
		}
	}
	picture(t, Curves{Title: "nothing yet", Levels: []float64{0}})
}

func TestHeatImagePaintsLowDarkAndHighPale(t *testing.T) {
	drawn := HeatImage([]float64{0, 1, math.NaN(), 0.5}, 2, 4, 6)
	if size := drawn.Bounds().Size(); size != image.Pt(6, 4) {
		t.Fatalf("size %v", size)
	}
	for at, want := range map[image.Point]color.Color{{X: 0, Y: 0}: scale[0], {X: 2, Y: 1}: scale[0], {X: 3, Y: 0}: scale[len(scale)-1], {X: 0, Y: 2}: missingColour, {X: 5, Y: 3}: colourAt(0.5)} {
		got := drawn.At(at.X, at.Y)
		if !hasColour(want)(got) {
			t.Errorf("at %v: %v, want %v", at, got, want)
		}
	}
	if flat := HeatImage([]float64{3, 3}, 2, 1, 2); !hasColour(scale[0])(flat.At(1, 0)) {
		t.Errorf("numbers that are all equal are %v", flat.At(1, 0))
	}
}

func TestDrawBoxes(t *testing.T) {
	drawn := DrawBoxes(noise(8, 8, 1), 4, Box{}, Box{Top: 0.25, Left: 0.5, Height: 0.5, Width: 0.5})
	if size := drawn.Bounds().Size(); size != image.Pt(32, 32) {
		t.Fatalf("size %v", size)
	}
	drawnThere := hasColour(palette[1])
	for at, want := range map[image.Point]bool{{X: 16, Y: 8}: true, {X: 31, Y: 23}: true, {X: 20, Y: 9}: true, {X: 20, Y: 12}: false, {X: 15, Y: 10}: false, {X: 20, Y: 24}: false} {
		if drawnThere(drawn.At(at.X, at.Y)) != want {
			t.Errorf("at %v the outline is there: %v, want %v", at, !want, want)
		}
	}
	if ink(drawn, hasColour(palette[0])) > 0 {
		t.Error("an empty box is drawn")
	}
}

func TestLabelsAndBarsOfBothAxes(t *testing.T) {
	panel := Curves{X: "k-NN accuracy (%)", Y: "mIoU (%)", Points: true}
	ours, paper := panel, panel
	ours.Title, paper.Title = "ours", "paper"
	names := []string{"line 1", "line 2", "line 3"}
	ours.Series = []Series{{XValues: [][]float64{{60, 62, 61}, {50, 49, 52}, nil}, Values: [][]float64{{40, 41, 42}, {46, 44, 45}, nil}, Bars: Deviations, Labels: names}}
	paper.Series = []Series{{X: []float64{74.6, 52.1, math.NaN()}, Y: []float64{40.1, 47.2, 46.6}, Look: 2, Hollow: true, Labels: names}}
	f := Chart{Title: "The lines between two tasks", Panels: CurvesRow{ours, paper}}
	svg, _ := picture(t, f)
	contains(t, svg, ">k-NN accuracy (%)<", ">mIoU (%)<", ">paper<", ">ours<")
	for name, count := range map[string]int{"line 1": 2, "line 3": 0} {
		if drawn := strings.Count(svg, ">"+name+"<"); drawn != count {
			t.Errorf("%s is drawn %d times", name, drawn)
		}
	}
	lines := strings.Split(strings.TrimSpace(CSV(f)), "\n")
	if len(lines) != 7 || !strings.HasPrefix(lines[1], "ours,,61,41,line 1,1,") || !strings.HasSuffix(lines[1], ",3,40 41 42,60 62 61") || lines[6] != "paper,,NaN,46.6,line 3,,,,0,," {
		t.Errorf("CSV:\n%s", CSV(f))
	}
	ours.Series[0].Labels = names[:2]
	if _, _, err := Render(ours); err == nil || err.Error() != `series "" has 3 points and 2 labels` {
		t.Error(err)
	}
}
