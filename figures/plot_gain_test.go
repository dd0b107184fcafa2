package figures

import (
	"image"
	"image/color"
	"math"
	"strings"
	"testing"
)

func TestGainPlot(t *testing.T) {
	f := GainPlot{Title: "gain", X: "AUC", Y: "points", Series: []GainSeries{
		{"CoTAP", []GainPoint{{X: 1, Gains: []float64{4, 5, 6}}, {X: 0.8, Gains: []float64{1, 2, 3}}, {X: 0.7, Gains: []float64{-1, -2, -3}, Real: true}}},
		{"BCE", []GainPoint{{X: 1, Gains: []float64{2}}}},
	}}
	svg, drawn := picture(t, f)
	contains(t, svg, ">gain<", ">AUC<", ">points<", ">CoTAP<", ">BCE<")
	for i, name := range []string{"CoTAP", "BCE"} {
		if ink(drawn, is(palette[i])) == 0 {
			t.Errorf("nothing has the colour of %s", name)
		}
	}
	if csv := f.CSV(); !strings.Contains(csv, "CoTAP,0.7,true,-2,") || !strings.Contains(csv, "BCE,1,false,2,,,2") {
		t.Errorf("CSV:\n%s", csv)
	}
	for name, point := range map[string]GainPoint{"no gain": {X: 1}, "no x": {X: math.NaN(), Gains: []float64{1}}} {
		if _, _, err := (GainPlot{Series: []GainSeries{{"CoTAP", []GainPoint{point}}}}).Render(); err == nil || !strings.Contains(err.Error(), "CoTAP") {
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
		if !is(want)(got) {
			t.Errorf("at %v: %v, want %v", at, got, want)
		}
	}
	if flat := HeatImage([]float64{3, 3}, 2, 1, 2); !is(scale[0])(flat.At(1, 0)) {
		t.Errorf("numbers that are all equal are %v", flat.At(1, 0))
	}
}

func TestDrawBoxes(t *testing.T) {
	drawn := DrawBoxes(noise(8, 8, 1), 4, Box{}, Box{Top: 0.25, Left: 0.5, Height: 0.5, Width: 0.5})
	if size := drawn.Bounds().Size(); size != image.Pt(32, 32) {
		t.Fatalf("size %v", size)
	}
	drawnThere := is(palette[1])
	for at, want := range map[image.Point]bool{{X: 16, Y: 8}: true, {X: 31, Y: 23}: true, {X: 20, Y: 9}: true, {X: 20, Y: 12}: false, {X: 15, Y: 10}: false, {X: 20, Y: 24}: false} {
		if drawnThere(drawn.At(at.X, at.Y)) != want {
			t.Errorf("at %v the outline is there: %v, want %v", at, !want, want)
		}
	}
	if ink(drawn, is(palette[0])) > 0 {
		t.Error("an empty box is drawn")
	}
}
