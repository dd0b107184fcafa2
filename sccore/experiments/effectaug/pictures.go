package effectaug

import (
	"fmt"
	"image"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/views"
)

// TrainingImages are the training images that the study uses in a profile, given the folder of the datasets; of the first dataset, if
// there are two.
func TrainingImages(profile study.Profile, dir string) (*datasets.Images, error) {
	all, err := sources(profile, dir)
	if err != nil {
		return nil, err
	}
	return all[0].read(datasets.Train)
}

// Views draws image number index under each row of the table: the image and pairs of views, as training sees them in the first
// epochs of the given seed.
func Views(b compute.Backend, images *datasets.Images, index, pairs int, seed uint64) (figures.ImageGrid, error) {
	sheet := figures.ImageGrid{Title: fmt.Sprintf("%s, image %d: pairs of views under each row of the table", images.Name, index), ColumnLabels: []string{"image"}}
	for pair := range pairs {
		sheet.ColumnLabels = append(sheet.ColumnLabels, fmt.Sprintf("pair %d", pair+1), "")
	}
	exec, err := graph.NewExec(b, func(pixels, params *graph.Node) *graph.Node { return views.Apply(pixels, params, images.Height) })
	if err != nil {
		return sheet, err
	}
	defer exec.Finalize()
	pixels := tensors.FromFlatDataAndDimensions(images.At(index), 1, images.Height, images.Width, 3)
	for _, row := range Rows {
		line := []image.Image{images.Image(index)}
		for epoch := range pairs {
			params := row.Recipe(views.Default()).Draw(seed, epoch, []int32{int32(index)}, 2, images.Height, images.Width)
			out, err := exec.Exec(pixels, params)
			if err != nil {
				return sheet, err
			}
			flat := tensors.MustCopyFlatData[float32](out[0])
			half := len(flat) / 2
			line = append(line, figures.NewImage(flat[:half], images.Height, images.Width), figures.NewImage(flat[half:], images.Height, images.Width))
		}
		sheet.RowLabels = append(sheet.RowLabels, strings.ReplaceAll(row.Name, "+", " + "))
		sheet.Images = append(sheet.Images, line)
	}
	return sheet, nil
}

// Curves draws the curve of a run: loss and k-NN accuracy, and the collapse gauges, against the epoch.
func Curves(points []study.Point) figures.CurvesRow {
	loss := figures.Series{Name: "loss"}
	knn := figures.Series{Name: "k-NN accuracy"}
	rank := figures.Series{Name: "effective rank"}
	for _, p := range points {
		loss.X, loss.Y = append(loss.X, p.Epoch), append(loss.Y, p.Loss)
		if p.Evaluated {
			knn.X, knn.Y = append(knn.X, p.Epoch), append(knn.Y, p.KNN)
			rank.X, rank.Y = append(rank.X, p.Epoch), append(rank.Y, p.EffectiveRank)
		}
	}
	return figures.CurvesRow{
		{X: "epoch", Y: "loss", Series: []figures.Series{loss}},
		{X: "epoch", Y: "k-NN accuracy (%)", Series: []figures.Series{knn}},
		{X: "epoch", Y: "effective rank of features", Series: []figures.Series{rank}},
	}
}
