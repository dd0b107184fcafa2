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
	exec, err := graph.NewExec(b, func(pixels, params *graph.Node) *graph.Node { return views.Apply(pixels, params, images.Height) })
	if err != nil {
		return sheet, err
	}
	defer exec.Finalize()
	pixels := tensors.FromFlatDataAndDimensions(images.At(index), 1, images.Height, images.Width, 3)
	for _, r := range recipes {
		line := []image.Image{images.Image(index)}
		for epoch := range pairs {
			params := r.Recipe.Draw(seed, epoch, []int32{int32(index)}, 2, images.Height, images.Width)
			out, err := exec.Call(pixels, params)
			if err != nil {
				return sheet, err
			}
			flat := tensors.MustCopyFlatData[float32](out[0])
			half := len(flat) / 2
			line = append(line, figures.NewImage(flat[:half], images.Height, images.Width), figures.NewImage(flat[half:], images.Height, images.Width))
		}
		sheet.RowLabels, sheet.Images = append(sheet.RowLabels, r.Name), append(sheet.Images, line)
	}
	return sheet, nil
}
