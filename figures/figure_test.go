package figures

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
)

// picture renders a figure and checks what holds for every figure: the SVG parses, the PNG has ink and the SVG's size, a second rendering is equal.
func picture(t *testing.T, figure Figure) (svg string, pixels image.Image) {
	t.Helper()
	vector, raster, err := Render(figure)
	if err != nil {
		t.Fatal(err)
	}
	for decoder := xml.NewDecoder(bytes.NewReader(vector)); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if pixels, err = png.Decode(bytes.NewReader(raster)); err != nil {
		t.Fatal(err)
	}
	if dir := os.Getenv("SEMCON_TEST_FIGURES"); dir != "" { // To be looked at.
		name := fmt.Sprintf("%s-%d", t.Name(), drawn[t.Name()])
		drawn[t.Name()]++
		if err := SaveFigure(dir, name, figure); err != nil {
			t.Fatal(err)
		}
		if err := SaveAs(filepath.Join(dir, name+".pdf"), figure); err != nil {
			t.Fatal(err)
		}
	}
	if ink(pixels, func(c color.Color) bool { r, g, b, _ := c.RGBA(); return r+g+b < 3*0xC000 }) < 200 {
		t.Error("the picture is nearly white")
	}
	vectorAgain, rasterAgain, err := Render(figure)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(vector, vectorAgain) || !bytes.Equal(raster, rasterAgain) {
		t.Error("a second rendering has different bytes")
	}
	return string(vector), pixels
}

var drawn = map[string]int{} // By test.

// ink counts the pixels that kind accepts.
func ink(pixels image.Image, kind func(color.Color) bool) (count int) {
	bounds := pixels.Bounds()
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			if kind(pixels.At(x, y)) {
				count++
			}
		}
	}
	return count
}

// hasColour accepts pixels of exactly this colour.
func hasColour(want color.Color) func(color.Color) bool {
	r, g, b, _ := want.RGBA()
	return func(c color.Color) bool { cr, cg, cb, _ := c.RGBA(); return cr == r && cg == g && cb == b }
}

func TestCurves(t *testing.T) {
	curves := Curves{Title: "CIFAR-10 & more", X: "epoch", Y: "k-NN accuracy (%)", Series: []Series{
		{Name: "SimCLR", X: []float64{0, 1, 2, 3}, Y: []float64{20, 30, math.NaN(), 36}},
		{Name: "MoCo", X: []float64{0, 1, 2, 3}, Y: []float64{21, 25, 26, math.Inf(1)}},
	}}
	svg, pixels := picture(t, curves)
	contains(t, svg, ">CIFAR-10 &amp; more<", ">epoch<", ">k-NN accuracy (%)<", ">SimCLR<", ">MoCo<", "font-family:'Liberation Sans',Arial")
	equal(t, pixels.Bounds().Dx(), 900)
	for i := range curves.Series {
		if ink(pixels, hasColour(palette[i])) < 50 {
			t.Errorf("series %d is not drawn", i)
		}
	}
	equal(t, CSV(curves), "series,x,y\nSimCLR,0,20\nSimCLR,1,30\nSimCLR,2,NaN\nSimCLR,3,36\nMoCo,0,21\nMoCo,1,25\nMoCo,2,26\nMoCo,3,+Inf\n")
}

// TestCurvesWithFewPoints draws a live plot, which starts with no points and then has one.
func TestCurvesWithFewPoints(t *testing.T) {
	svg, _ := picture(t, Curves{X: "step", Y: "loss", LogY: true})
	contains(t, svg, ">step<", ">loss<")
	for _, y := range []float64{0, 0.0023, -1} {
		_, pixels := picture(t, Curves{X: "step", Y: "loss", Series: []Series{{Name: "a", X: []float64{1}, Y: []float64{y}}}})
		if ink(pixels, hasColour(palette[0])) < 60 { // the marker in the legend and the one in the plot
			t.Errorf("the point at %v is not drawn", y)
		}
	}
}

func TestCurvesRow(t *testing.T) {
	x := []float64{1, 2, 3}
	row := CurvesRow{
		{X: "step", Y: "loss", LogY: true, Series: []Series{{Name: "SimCLR", X: x, Y: []float64{6, 5, 4}}}},
		{X: "epoch", Y: "k-NN accuracy (%)", Series: []Series{{Name: "SimCLR", X: x, Y: []float64{20, 30, 33}}}},
	}
	svg, _ := picture(t, row)
	contains(t, svg, ">step<", ">loss<", ">epoch<", ">k-NN accuracy (%)<")
	contains(t, CSV(row), "plot,series,x,y\nloss,SimCLR,1,6\n", "k-NN accuracy (%),SimCLR,3,33\n")
}

func TestCurvesRefuse(t *testing.T) {
	for want, figure := range map[string]Figure{
		"no curves":                  CurvesRow{},
		`series "a" has 1 x and 2 y`: Curves{Series: []Series{{Name: "a", X: []float64{1}, Y: []float64{1, 2}}}},
		`series "b" has y = -0.5 at x = 7, which a logarithmic axis cannot show`: Curves{LogY: true, Series: []Series{{Name: "b", X: []float64{7}, Y: []float64{-0.5}}}},
	} {
		if _, _, err := Render(figure); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestThinKeepsTheEnvelope(t *testing.T) {
	points := make(plotter.XYs, 10000)
	for i := range points {
		points[i] = plotter.XY{X: float64(i), Y: math.Sin(float64(i))}
	}
	points[5003].Y, points[7777].Y = 9, -9
	kept := thin(points)
	if len(kept) > 1002 {
		t.Errorf("%d points", len(kept))
	}
	_, _, low, high := plotter.XYRange(kept)
	equal(t, low, -9.0)
	equal(t, high, 9.0)
	equal(t, kept[0], points[0])
	equal(t, kept[len(kept)-1], points[9999])
	for i := 1; i < len(kept); i++ {
		if kept[i].X < kept[i-1].X {
			t.Fatalf("x goes back at %d", i)
		}
	}
	equal(t, len(thin(points[:1000])), 1000)
}

// drops are what two methods lose, ours and the paper's.
func drops() Curves {
	x := []float64{0, 1}
	return Curves{Title: "CIFAR-10, profile quick", Y: "drop in k-NN accuracy (points)", Points: true, Names: []string{"SimCLR", "SimSiam"}, Levels: []float64{0}, Shift: 0.13, Series: []Series{
		{Name: "no crop: ours", X: x, Values: [][]float64{{12, 13, 14}, nil}, Bars: Deviations, Look: 1}, {Name: "no crop: paper", X: x, Y: []float64{36.5, 58.8}, Look: 1, Hollow: true},
		{Name: "same crop: ours", X: x, Values: [][]float64{{14, 15, 16}, {-2}}, Bars: Deviations, Look: 2},
		{Name: "same crop: paper", X: x, Y: []float64{33.1, math.NaN()}, Look: 2, Hollow: true},
	}}
}

func TestNamesAndDeviations(t *testing.T) {
	svg, pixels := picture(t, drops())
	contains(t, svg, ">drop in k-NN accuracy (points)<", ">SimCLR<", ">SimSiam<", ">no crop: paper<", ">one seed<", ">CIFAR-10, profile quick<")
	for i := range 2 {
		if ink(pixels, hasColour(palette[i])) < 100 {
			t.Errorf("colour %d is missing", i)
		}
	}
	contains(t, CSV(drops()), "no crop: ours,SimCLR,13,,1,10.51586,15.48414,3,12 13 14,\nno crop: ours,SimSiam,NaN,,,,,0,,\nno crop: paper,SimCLR,36.5,,,,,0,,\n",
		"same crop: ours,SimSiam,-2,,,,,1,-2,\n")
	before := drops() // the first run
	for i := range before.Series {
		before.Series[i].X, before.Series[i].Y, before.Series[i].Values = nil, nil, nil
	}
	picture(t, before)
	wrong := drops()
	wrong.Names = wrong.Names[:1]
	if _, _, err := Render(wrong); err == nil || err.Error() != `series "no crop: ours" has x = 1 for 1 names` {
		t.Error(err)
	}
}

func TestSharedPanels(t *testing.T) {
	panel := func(name string, ours [][]float64, paper ...float64) Curves {
		x := []float64{1, 2, 3}
		return Curves{Title: name, X: "transformations", Y: "k-NN accuracy (%)", Series: []Series{
			{Name: "ours, mean ± sd", X: x, Values: ours, Bars: Deviations}, {Name: "paper", X: x, Y: paper, Hollow: true},
		}}
	}
	rich := Chart{Title: "CIFAR-10", Shared: true, Panels: CurvesRow{
		panel("SimCLR", [][]float64{{40, 41}, {45}, nil}, 62.7, 63.2, 83.5), panel("MoCo", [][]float64{nil, {math.NaN(), 50}, nil}, math.NaN(), 75.1, 86.8),
	}}
	svg, _ := picture(t, rich)
	contains(t, svg, ">k-NN accuracy (%)<", ">transformations<", ">SimCLR<", ">MoCo<", ">ours, mean ± sd<", ">paper<", ">one seed<")
	for _, once := range []string{">paper<", ">k-NN accuracy (%)<"} {
		if strings.Count(svg, once) != 1 {
			t.Errorf("%s is drawn %d times", once, strings.Count(svg, once))
		}
	}
	contains(t, CSV(rich), "plot,series,x,y,label,sd,low,high,n,values,x_values\nSimCLR,\"ours, mean ± sd\",1,40.5,,0.7071068,34.1469,46.8531,2,40 41,\n",
		"MoCo,\"ours, mean ± sd\",1,NaN,,,,,0,,\nMoCo,\"ours, mean ± sd\",2,NaN,,,,,2,NaN 50,\n", "MoCo,paper,2,75.1,,,,,0,,\n")
	rich.Panels[0].Series[1].Name, rich.Panels[0].Series[1].X = "a", []float64{1, 2}
	for want, figure := range map[string]Chart{"no curves": {}, `series "a" has 2 x and 3 y`: rich} {
		if _, _, err := Render(figure); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestTicks(t *testing.T) {
	labels := func(ticks []plot.Tick) string {
		var texts []string
		for _, tick := range ticks {
			texts = append(texts, tick.Label)
		}
		return strings.Join(texts, " ")
	}
	equal(t, labels(niceTicks(-3, 62)), "0 10 20 30 40 50 60")
	equal(t, labels(niceTicks(0, 1)), "0.0 0.2 0.4 0.6 0.8 1.0")
	equal(t, labels(niceTicks(-0.06, -0.01)), "−0.06 −0.05 −0.04 −0.03 −0.02 −0.01")
	equal(t, labels(niceTicks(0, 3e6)), "0 500000 1e+06 1.5e+06 2e+06 2.5e+06 3e+06")
	equal(t, labels(niceTicks(6.93140, 6.93146)), "6.93140 6.93141 6.93142 6.93143 6.93144 6.93145 6.93146")
	equal(t, labels(niceTicks(0, 4e-5)), "0 1e-05 2e-05 3e-05 4e-05")
	equal(t, labels(sparseTicks(sans(tickSize, false, 0, 0), 500, false)(0, 3000)), "0 500 1000 1500 2000 2500 3000")
	equal(t, labels(sparseTicks(sans(tickSize, false, 0, 0), 120, false)(0, 3000)), "0  1000  2000  3000")
	equal(t, labels(sparseTicks(sans(tickSize, false, 0, 0), 500, true)(1, 2)), "1 2")
	equal(t, labels(logTicks(0.04, 30)), "0.05 0.1 0.2 0.5 1 2 5 10 20")
	equal(t, labels(logTicks(1e-3, 1e3)), "0.001 0.01 0.1 1 10 100 1000")
	equal(t, labels(logTicks(3, 6)), "3.0 3.5 4.0 4.5 5.0 5.5 6.0")
}

func TestSaveFigure(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	if err := SaveFigure(dir, "drop", drops()); err != nil {
		t.Fatal(err)
	}
	svg, raster, err := Render(drops())
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"drop.svg": string(svg), "drop.png": string(raster), "drop.csv": CSV(drops())} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s differs from what was rendered", name)
		}
	}
	err = SaveFigure(dir, "wrong", CurvesRow{})
	if err == nil || err.Error() != "figure wrong: no curves" {
		t.Error(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, len(entries), 3) // nothing of the failed figure, no temporary files
	if err := SaveFigure(filepath.Join(dir, "drop.csv"), "drop", drops()); err == nil || !strings.Contains(err.Error(), "drop.csv") {
		t.Errorf("the folder is a file: %v", err)
	}
}

// TestSaveAsWritesEachFormat: the same figure gives the same bytes, and SVG and PNG are as from Render.
func TestSaveAsWritesEachFormat(t *testing.T) {
	figure := Curves{Title: "Δ title", X: "step", Y: "loss", Series: []Series{{Name: "a", X: []float64{0, 1}, Y: []float64{2, 1}}}}
	dir := t.TempDir()
	svg, raster, err := Render(figure)
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range FigureFormats {
		var files [2][]byte
		for i := range files {
			file := filepath.Join(dir, "figure"+format)
			if err := SaveAs(file, figure); err != nil {
				t.Fatal(err)
			}
			if files[i], err = os.ReadFile(file); err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				time.Sleep(time.Millisecond)
			}
		}
		if !bytes.Equal(files[0], files[1]) {
			t.Errorf("%s: a second file has other bytes", format)
		}
		switch format {
		case ".svg":
			if !bytes.Equal(files[0], svg) {
				t.Error("the SVG is another one")
			}
		case ".png":
			if !bytes.Equal(files[0], raster) {
				t.Error("the PNG is another one")
			}
		case ".pdf":
			if !bytes.HasPrefix(files[0], []byte("%PDF-")) || !bytes.Contains(files[0], []byte("(D:20000101000000")) {
				t.Error("no PDF with a fixed date")
			}
		}
	}
	if err := SaveAs("figure.jpg", figure); err == nil || err.Error() != "figure.jpg: want a file that ends with one of .svg, .png, .pdf" {
		t.Error(err)
	}
}

// TestTextsOfSVGsKeepTheirWidths: a viewer with wider fonts would draw the texts of a legend into each other.
func TestTextsOfSVGsKeepTheirWidths(t *testing.T) {
	svg, _, err := Render(Curves{X: "step", Y: "loss <nats>", Series: []Series{{Name: "one", X: []float64{0, 1}, Y: []float64{1, 2}}}})
	if err != nil {
		t.Fatal(err)
	}
	texts := regexp.MustCompile(`<text textLength="([0-9.]+)" lengthAdjust="spacingAndGlyphs" [^>]*>([^<]+)</text>`).FindAllStringSubmatch(string(svg), -1)
	if n := strings.Count(string(svg), "<text"); n != len(texts) || n < 5 {
		t.Fatalf("%d of %d texts have a width", len(texts), n)
	}
	widths := map[string]float64{}
	for _, text := range texts {
		if widths[text[2]], err = strconv.ParseFloat(text[1], 64); err != nil || widths[text[2]] < 2 {
			t.Errorf("%q is %s wide", text[2], text[1])
		}
	}
	if widths["loss &lt;nats&gt;"] < 2*widths["step"] {
		t.Errorf("widths %v", widths)
	}
}
