package features

import (
	"fmt"
	"image"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/views"
)

// Views draws each scene with boxes for its two global views, and the two views with their overlap.
func (w *Viewer) Views(seed uint64) (figures.ImageGrid, error) {
	m, side := w.config.Views, w.config.ImageSize
	m.Locals = 0
	sheet := figures.ImageGrid{
		Title:        "Two global views of each scene (blue, vermilion) and their overlap (green)",
		ColumnLabels: []string{"scene", "first view", "second view"}, Scale: 1,
	}
	exec, err := graph.NewExec(w.backend, func(pixels, params *graph.Node) []*graph.Node {
		half := func(i int) *graph.Node { return graph.Slice(params, graph.AxisRange(i, i+1)) }
		first, second := views.Overlap(half(0), half(1))
		boxes, _ := views.Boxes(params)
		return []*graph.Node{views.Apply(pixels, params, m.GlobalCropSize), boxes, graph.Concatenate([]*graph.Node{first, second}, 0)}
	})
	if err != nil {
		return sheet, err
	}
	defer exec.Finalize()
	for i := range w.images {
		canvas := make([]uint8, side*side*3)
		extent, err := w.scenes.Read(i, canvas, side)
		if err != nil {
			return sheet, err
		}
		params, _ := m.Draw(seed, 0, []int32{int32(i)}, []datasets.Size{extent})
		out, err := exec.Call(tensors.FromFlatDataAndDimensions(canvas, 1, side, side, 3), params)
		if err != nil {
			return sheet, err
		}
		pixels, boxes, overlap := tensors.MustCopyFlatData[float32](out[0]), tensors.MustCopyFlatData[float32](out[1]), tensors.MustCopyFlatData[float32](out[2])
		box := func(rows []float32, i int) figures.Box {
			r := rows[4*i:]
			return figures.Box{Top: float64(r[0]), Left: float64(r[1]), Height: float64(r[2]), Width: float64(r[3])}
		}
		inScene := func(i int) figures.Box { // Boxes are in pixels of the canvas.
			b := box(boxes, i)
			return figures.Box{Top: b.Top / float64(side), Left: b.Left / float64(side), Height: b.Height / float64(side), Width: b.Width / float64(side)}
		}
		first, second := inScene(0), inScene(1)
		both := figures.Box{Top: max(first.Top, second.Top), Left: max(first.Left, second.Left)}
		both.Height = min(first.Top+first.Height, second.Top+second.Height) - both.Top
		both.Width = min(first.Left+first.Width, second.Left+second.Width) - both.Left
		scene := make([]float32, len(canvas))
		for p, x := range canvas {
			scene[p] = float32(x) / 255
		}
		row := []image.Image{figures.DrawBoxes(figures.NewImage(scene, side, side), max(1, 190/side), first, second, both)}
		one := len(pixels) / 2
		for v := range 2 {
			view := figures.NewImage(pixels[v*one:(v+1)*one], m.GlobalCropSize, m.GlobalCropSize)
			row = append(row, figures.DrawBoxes(view, max(1, 190/m.GlobalCropSize), figures.Box{}, figures.Box{}, box(overlap, v)))
		}
		sheet.RowLabels, sheet.Images = append(sheet.RowLabels, fmt.Sprintf("scene %d", i)), append(sheet.Images, row)
	}
	return sheet, nil
}
