package figures

import (
	"image"
	"image/color"
	"math"
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
	if want := "x,y,class\n0,0,cat\n1,2,sky\n1.001,2,dog\n3,-1,sky\n"; CSV(f) != want {
		t.Errorf("%q", CSV(f))
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

func TestGainPlot(t *testing.T) {
	f := GainPlot{Title: "gain", X: "AUC", Y: "points", Series: []GainSeries{
		{"CoTAP", []GainPoint{{X: 1, Gains: []float64{4, 5, 6}}, {X: 0.8, Gains: []float64{1, 2, 3}}, {X: 0.7, Gains: []float64{-1, -2, -3}, Real: true}}},
		{"BCE", []GainPoint{{X: 1, Gains: []float64{2}}}},
	}}
	svg, drawn := picture(t, f)
	contains(t, svg, ">gain<", ">AUC<", ">points<", ">CoTAP<", ">BCE<")
	for i, name := range []string{"CoTAP", "BCE"} {
		if ink(drawn, hasColour(palette[i])) == 0 {
			t.Errorf("nothing has the colour of %s", name)
		}
	}
	if csv := CSV(f); !strings.Contains(csv, "CoTAP,0.7,true,-2,") || !strings.Contains(csv, "BCE,1,false,2,,,2") {
		t.Errorf("CSV:\n%s", csv)
	}
	for name, point := range map[string]GainPoint{"no gain": {X: 1}, "no x": {X: math.NaN(), Gains: []float64{1}}} {
		if _, _, err := Render(GainPlot{Series: []GainSeries{{"CoTAP", []GainPoint{point}}}}); err == nil || !strings.Contains(err.Error(), "CoTAP") {
			t.Errorf("%s: %v", name, err)
		}
	}
	picture(t, GainPlot{Title: "nothing yet"})
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

func TestTradeOff(t *testing.T) {
	f := TradeOff{Title: "The lines between two tasks", X: "k-NN accuracy (%)", Y: "mIoU (%)", Lines: []TradeOffLine{
		{Name: "1", X: Cell{Paper: 74.6, Ours: []float64{60, 62, 61}}, Y: Cell{Paper: 40.1, Ours: []float64{40, 41, 42}}},
		{Name: "2", X: Cell{Paper: 52.1, Ours: []float64{50, 49, 52}}, Y: Cell{Paper: 47.2, Ours: []float64{46, 44, 45}}},
		{Name: "3", X: Cell{Paper: math.NaN()}, Y: Cell{Paper: 46.6}},
	}}
	svg, _ := picture(t, f)
	for _, want := range []string{"k-NN accuracy (%)", "mIoU (%)", "paper", "ours"} {
		if !strings.Contains(svg, want) {
			t.Errorf("the picture does not say %q", want)
		}
	}
	if lines := strings.Split(strings.TrimSpace(CSV(f)), "\n"); len(lines) != 7 || lines[1] != "1,k-NN accuracy (%),74.6,61,1,3,60 62 61" || !strings.HasSuffix(lines[5], ",,,,0,") {
		t.Errorf("CSV:\n%s", CSV(f))
	}
	if _, _, err := Render(TradeOff{}); err != nil {
		t.Errorf("without lines: %v", err)
	}
}
