package features

import (
	"fmt"
	"image"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/views"
)

// viewCutter cuts views out of images.
type viewCutter struct{ *graph.Exec }

// newViewCutter cuts views of size pixels. The caller finalizes it.
func newViewCutter(b compute.Backend, size int) (viewCutter, error) {
	exec, err := graph.NewExec(b, func(pixels, params *graph.Node) []*graph.Node {
		boxes, flips := views.Boxes(params)
		half := func(i int) *graph.Node {
			count := params.Shape().Dim(0) / 2
			return graph.Slice(params, graph.AxisRange(i*count, (i+1)*count))
		}
		first, second := views.Overlap(half(0), half(1))
		return []*graph.Node{views.Apply(pixels, params, size), boxes, flips, graph.Concatenate([]*graph.Node{first, second}, 0)}
	})
	return viewCutter{exec}, err
}

// pairOfViews is two views of an image, one after the other: their pixels, their boxes in the image, whether they are flipped, and the boxes of their overlap.
type pairOfViews struct{ pixels, boxes, flips, overlaps []float32 }

// view is the pixels of the first or the second view.
func (p pairOfViews) view(i int) []float32 {
	n := len(p.pixels) / 2
	return p.pixels[i*n : (i+1)*n]
}

func (v viewCutter) cut(pixels []uint8, height, width int, params *tensors.Tensor) (pairOfViews, error) {
	out, err := v.Call(tensors.FromFlatDataAndDimensions(pixels, 1, height, width, 3), params)
	if err != nil {
		return pairOfViews{}, err
	}
	var flat [4][]float32
	for i := range flat {
		flat[i] = tensors.MustCopyFlatData[float32](out[i])
	}
	return pairOfViews{flat[0], flat[1], flat[2], flat[3]}, nil
}

// NamedRecipe is a recipe of views and its name in figures.
type NamedRecipe struct {
	Name   string
	Recipe views.Recipe
}

// ViewPairs draws one image and pairs of its views, a row per recipe, as training sees them in the first epochs of the given seed.
func ViewPairs(b compute.Backend, images *datasets.Images, index, pairs int, seed uint64, recipes []NamedRecipe) (figures.ImageGrid, error) {
	sheet := figures.ImageGrid{ColumnLabels: []string{"image"}}
	for pair := range pairs {
		sheet.ColumnLabels = append(sheet.ColumnLabels, fmt.Sprintf("pair %d", pair+1), "")
	}
	cutter, err := newViewCutter(b, images.Height)
	if err != nil {
		return sheet, err
	}
	defer cutter.Finalize()
	for _, r := range recipes {
		line := []image.Image{images.Image(index)}
		for epoch := range pairs {
			pair, err := cutter.cut(images.At(index), images.Height, images.Width, r.Recipe.Draw(seed, epoch, []int32{int32(index)}, 2, images.Height, images.Width))
			if err != nil {
				return sheet, err
			}
			for v := range 2 {
				line = append(line, figures.NewImage(pair.view(v), images.Height, images.Width))
			}
		}
		sheet.RowLabels, sheet.Images = append(sheet.RowLabels, r.Name), append(sheet.Images, line)
	}
	return sheet, nil
}

// Views draws each scene with boxes for its two global views, and the two views with their overlap.
func (w *Viewer) Views(seed uint64) (figures.ImageGrid, error) {
	m, side := w.config.Views, w.config.ImageSize
	m.Locals = 0
	sheet := figures.ImageGrid{
		Title:        "Two global views of each scene (blue, vermilion) and their overlap (green)",
		ColumnLabels: []string{"scene", "first view", "second view"}, Scale: 1,
	}
	cutter, err := newViewCutter(w.backend, m.GlobalCropSize)
	if err != nil {
		return sheet, err
	}
	defer cutter.Finalize()
	for i := range w.images {
		canvas := make([]uint8, side*side*3)
		extent, err := w.scenes.Read(i, canvas, side)
		if err != nil {
			return sheet, err
		}
		params, _ := m.Draw(seed, 0, []int32{int32(i)}, []datasets.Size{extent})
		pair, err := cutter.cut(canvas, side, side, params)
		if err != nil {
			return sheet, err
		}
		box := func(rows []float32, i int, unit float64) figures.Box {
			share := func(axis int) float64 { return float64(rows[4*i+axis]) / unit }
			return figures.Box{Top: share(0), Left: share(1), Height: share(2), Width: share(3)}
		}
		first, second := box(pair.boxes, 0, float64(side)), box(pair.boxes, 1, float64(side)) // In pixels of the canvas.
		both := figures.Box{Top: max(first.Top, second.Top), Left: max(first.Left, second.Left)}
		both.Height = min(first.Top+first.Height, second.Top+second.Height) - both.Top
		both.Width = min(first.Left+first.Width, second.Left+second.Width) - both.Left
		scene := &datasets.SegmentedImage{Height: side, Width: side, Pixels: canvas}
		row := []image.Image{figures.DrawBoxes(scene.Image(), max(1, 190/side), first, second, both)}
		for v := range 2 {
			view := figures.NewImage(pair.view(v), m.GlobalCropSize, m.GlobalCropSize)
			row = append(row, figures.DrawBoxes(view, max(1, 190/m.GlobalCropSize), figures.Box{}, figures.Box{}, box(pair.overlaps, v, 1)))
		}
		sheet.RowLabels, sheet.Images = append(sheet.RowLabels, fmt.Sprintf("scene %d", i)), append(sheet.Images, row)
	}
	return sheet, nil
}
