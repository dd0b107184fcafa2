package figures

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/semcon/semcon/analysis/stats"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// AugmentationCurves shows accuracy against the number of transformations, ours and the paper's, with one panel per method and one y axis for all.
type AugmentationCurves struct {
	// Title stands above the panels, e.g. the dataset and the profile.
	Title string
	// Methods are drawn from left to right.
	Methods []AugmentationCurve
}

// AugmentationCurve is the accuracy of one method in percent: Cells[i] with Transformations[i] of them switched on.
type AugmentationCurve struct {
	Method          string
	Transformations []int
	Cells           []Cell
}

// Render implements [Figure].
func (f AugmentationCurves) Render() (svg, png []byte, err error) { return rendered(f) }

func (f AugmentationCurves) page() (sheet, error) {
	if len(f.Methods) == 0 {
		return sheet{}, errors.New("no methods")
	}
	xs, ys := newExtent(), newExtent()
	for _, method := range f.Methods {
		if len(method.Transformations) != len(method.Cells) {
			return sheet{}, fmt.Errorf("method %q has %d numbers of transformations and %d cells", method.Method, len(method.Transformations), len(method.Cells))
		}
		for i, cell := range method.Cells {
			xs.add(float64(method.Transformations[i]))
			ys.include(cell)
		}
	}
	ours := legendEntry{"ours, mean ± sd", draw.LineStyle{Color: palette[0], Width: vg.Points(1.6)}, glyph(palette[0], circle, false)}
	printed := legendEntry{"paper", draw.LineStyle{Color: palette[1], Width: vg.Points(1.3), Dashes: dashes[1]}, glyph(palette[1], square, true)}
	seed := legendEntry{name: "one seed", glyph: draw.GlyphStyle{Color: faint(grey), Radius: vg.Points(2.2), Shape: marker{circle, false}}}

	plots := make([]*plot.Plot, len(f.Methods))
	for i, method := range f.Methods {
		label := ""
		if i == 0 {
			label = "k-NN accuracy (%)"
		}
		p := newPlot("transformations", label)
		p.Title.Text, p.Title.TextStyle = method.Method, sans(textSize, true)
		p.Title.TextStyle.XAlign, p.Title.TextStyle.YAlign = draw.XCenter, draw.YTop
		p.Title.Padding = 4
		var means, papers plotter.XYs
		var ticks []plot.Tick
		for j, cell := range method.Cells {
			x := float64(method.Transformations[j])
			ticks = append(ticks, plot.Tick{Value: x, Label: strconv.Itoa(method.Transformations[j])})
			if mean := stats.MeanInterval(cell.Ours).Mean; isFinite(mean) {
				means = append(means, plotter.XY{X: x, Y: mean})
			}
			if isFinite(cell.Paper) {
				papers = append(papers, plotter.XY{X: x, Y: cell.Paper})
			}
		}
		p.Add(&plotter.Line{XYs: papers, LineStyle: printed.line}, &plotter.Line{XYs: means, LineStyle: ours.line})
		for j, cell := range method.Cells {
			x := float64(method.Transformations[j])
			paperAt(p, x, cell.Paper, palette[1], square)
			oursAt(p, x, x-0.15, cell.Ours, palette[0], circle)
		}
		p.X.Tick.Marker = plot.ConstantTicks(ticks)
		setRange(&p.X, xs.low-0.2, xs.high)
		setRange(&p.Y, ys.low, ys.high)
		plots[i] = p
	}
	return newSheet(width, 360*pixel, func(c draw.Canvas) {
		c = drawHead(page(c), f.Title, []legendEntry{ours, printed, seed})
		drawRow(c, plots, 10)
	})
}

// CSV implements [Figure]: method, transformations, then paper, mean, sd, n and values.
func (f AugmentationCurves) CSV() string {
	records := [][]string{append([]string{"method", "transformations"}, cellHeader...)}
	for _, method := range f.Methods {
		for i, cell := range method.Cells {
			records = append(records, append([]string{method.Method, strconv.Itoa(method.Transformations[i])}, cell.record()...))
		}
	}
	return csvText(records)
}
