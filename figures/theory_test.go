package figures

import (
	"math"
	"strings"
	"testing"

	"github.com/semcon/semcon/analysis/theory"
)

func TestBoundTable(t *testing.T) {
	var table BoundTable
	for _, f := range []struct {
		name     string
		features *theory.Features
	}{{"orthogonal <axes>", theory.OrthogonalClasses(4, 100, 2, 0.002, 1)}, {"random labels", theory.RandomLabels(4, 1000, 2, 0.02, 1)}} {
		a, err := f.features.Compare(100)
		if err != nil {
			t.Fatal(err)
		}
		table = append(table, BoundRow{f.name, a})
	}
	text := table.HTML()
	if strings.Count(text, "<tr>") != 3 || !strings.Contains(text, "orthogonal &lt;axes&gt;") || strings.Count(text, "#D55E00") != 1 || !strings.Contains(text, "–") {
		t.Error(text)
	}
	f := table.Curves("noise", []float64{1, 2}, 1e-6)
	picture(t, f)
	if truth := f.Series[len(f.Series)-1].Y; truth[0] != 1e-6 || !(math.Abs(truth[1]-0.74) <= 0.05) {
		t.Errorf("true errors %v", truth)
	}
	if theorem2 := f.Series[1].Y; !math.IsNaN(theorem2[1]) {
		t.Errorf("theorem 2 %v", theorem2)
	}
}

// nearIdeal is close to the ideal encoder, where both theorems say something.
func nearIdeal(x float64) (theory.Setting, theory.Tails) {
	s := theory.Setting{Classes: 10, Images: 1000, Dim: 10, Radius: 1}
	return s, theory.Tails{ViewThreshold: 0.999, ViewTail: 0, ClassThreshold: 0.99, ClassTail: x}
}

func TestBoundCurves(t *testing.T) {
	f := BoundCurves("q_T", []float64{0, 0.01, 0.5}, nearIdeal)
	picture(t, f)
	printed, repaired := f.Series[0].Y, f.Series[1].Y
	s, tails := nearIdeal(0.01)
	if printed[1] != s.Printed(tails).Value || repaired[1] != s.Repaired(tails, 0.1).Value {
		t.Errorf("%v, %v", printed, repaired)
	}
	if !math.IsNaN(printed[2]) || !math.IsNaN(repaired[2]) {
		t.Error("a curve has no gap where there is no margin")
	}
}

func TestBoundHeatmaps(t *testing.T) {
	f := BoundHeatmaps("q_T", "d_T", []float64{0, 0.01, 0.1, 0.5}, []float64{0.5, 0.9, 0.99}, func(x, y float64) (theory.Setting, theory.Tails) {
		s, tails := nearIdeal(x)
		tails.ClassThreshold = y
		return s, tails
	})
	picture(t, f)
	if v := f[1].Values[2][0]; !(v < 0) {
		t.Errorf("the repaired bound at the best corner is 10^%g", v)
	}
	if !math.IsNaN(f[0].Values[0][0]) || !math.IsNaN(f[1].Values[0][3]) {
		t.Error("the heatmap is not grey where the theorem says nothing")
	}
	if lines := strings.Count(CSV(f), "\n"); lines != 1+2*12 {
		t.Errorf("%d lines of CSV", lines)
	}
}

func TestFeasibility(t *testing.T) {
	f := Feasibility()
	picture(t, f)
	last := len(f.Ys) - 1
	if v := f.Values[last][0]; !(math.Abs(v-0.764) <= 0.002) {
		t.Errorf("least d_T at K = d is %g", v)
	}
	if v := f.Values[last][len(f.Xs)-1]; !(v > 1) {
		t.Errorf("least d_T at d = K/2 is %g", v)
	}
}

func TestHeatmapsThatCannotBeDrawn(t *testing.T) {
	good := Heatmap{Xs: []float64{0, 1}, Ys: []float64{0, 1}, Values: [][]float64{{0, 1}, {2, math.NaN()}}, High: 1}
	picture(t, good)
	if csv := CSV(good); csv != "x,y,value\n0,0,0\n1,0,1\n0,1,2\n1,1,\n" {
		t.Errorf("%q", csv)
	}
	for want, change := range map[string]func(*Heatmap){
		"1 values by 2":        func(m *Heatmap) { m.Xs = m.Xs[:1] },
		"1 rows":               func(m *Heatmap) { m.Values = m.Values[:1] },
		"row 1 has 1 values":   func(m *Heatmap) { m.Values = [][]float64{{0, 1}, {2}} },
		"colours from 0 to -1": func(m *Heatmap) { m.High = -1 },
	} {
		bad := good
		change(&bad)
		if _, _, err := Render(bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if _, _, err := Render(HeatmapRow{}); err == nil {
		t.Error("no maps")
	}
}

func TestTailCurves(t *testing.T) {
	features := theory.OrthogonalClasses(3, 20, 3, 0.1, 1)
	curves, err := features.TailCurves(features.Thresholds(50))
	if err != nil {
		t.Fatal(err)
	}
	f := TailCurves(curves, 0.5)
	picture(t, f)
	if x := f[0].Series[0].X; x[0] < 0.5 || x[len(x)-1] != 1 {
		t.Errorf("thresholds from %g to %g", x[0], x[len(x)-1])
	}
	if curves, err = features.TailCurves([]float64{0.5}); err != nil || len(TailCurves(curves, 0)[0].Series[0].X) != 1 {
		t.Errorf("one threshold: %v", err)
	}
}

func TestUprightNames(t *testing.T) {
	rows := func(method string, names []string, truth, bound [][]float64) Curves {
		x := make([]float64, len(names))
		for i := range x {
			x[i] = float64(i)
		}
		return Curves{Title: method, Y: "error", Points: true, Names: names, Levels: []float64{0, 1}, Shift: 0.12, Series: []Series{
			{Name: "true", X: x, Values: truth}, {Name: "bound", X: x, Values: bound, Hollow: true},
		}}
	}
	f := Chart{Title: "errors", Shared: true, Panels: CurvesRow{
		rows("SimCLR", []string{"crop", "crop+blur+gray+jitter+flip", "gray+jitter"}, [][]float64{{0.1, 0.2}, {0.3}, nil}, [][]float64{{0.5}, nil, nil}),
		rows("MoCo", []string{"crop"}, [][]float64{{0.1}}, [][]float64{{1}}),
	}}
	svg, high := picture(t, f)
	contains(t, svg, "crop + blur + gray + jitter + flip", ">MoCo<")
	if strings.Count(svg, "rotate(90)")+strings.Count(svg, "rotate(-90)") < 4 {
		t.Error("long names are not upright")
	}
	contains(t, CSV(f), "SimCLR,true,crop,0.15000000000000002,,0.07071068,", ",2,0.1 0.2,\n", "SimCLR,bound,crop,0.5,,,,,1,0.5,\n",
		"SimCLR,true,crop+blur+gray+jitter+flip,0.3,,,,,1,0.3,\n", "MoCo,bound,crop,1,,,,,1,1,\n")
	f.Panels = f.Panels[1:]
	if _, low := picture(t, f); low.Bounds().Dy() >= high.Bounds().Dy() {
		t.Error("there is no room for upright names")
	}
}

func TestPointsHaveNoLines(t *testing.T) {
	curves := Curves{X: "x", Y: "y", Points: true, Series: []Series{{Name: "a", X: []float64{0, 1, 2, 0.5}, Y: []float64{1, 0, 2, 3}}}}
	points, _ := picture(t, curves)
	curves.Points = false
	if lines, _ := picture(t, curves); strings.Count(points, "<path") >= strings.Count(lines, "<path")+4 || points == lines {
		t.Error("points are drawn as a line")
	}
}
