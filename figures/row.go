package figures

import (
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// drawRow draws panels of equal size beside each other, with a gap between them. The first panel is wider, for its y label.
func drawRow(c draw.Canvas, panels []*plot.Plot, gap vg.Length) {
	const label = 18
	each := (c.Size().X - label - gap*vg.Length(len(panels)-1)) / vg.Length(len(panels))
	left := vg.Length(0)
	for i, p := range panels {
		w := each
		if i == 0 {
			w += label
		}
		p.Draw(draw.Crop(c, left, left+w-c.Size().X, 0, 0))
		left += w + gap
	}
}
