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
	"github.com/semcon/semcon/sccore/views"
)

// EffectAugImages are the training images that the study uses in a profile, given the folder of the datasets; of the first dataset, if
// there are two.
func EffectAugImages(profile Profile, dir string) (*datasets.Images, error) {
	sources, err := effectAugSources(profile, dir)
	if err != nil {
		return nil, err
	}
	return sources[0].read(datasets.Train)
}

// EffectAugViews draws image number index under each row of the table: the image and pairs of views, as training sees them in the first
// epochs of the given seed.
func EffectAugViews(b compute.Backend, images *datasets.Images, index, pairs int, seed uint64) (figures.ImageGrid, error) {
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
	for _, row := range EffectAugRows {
		line := []image.Image{images.Image(index)}
		for epoch := range pairs {
			params := row.Recipe(views.Default()).Draw(seed, epoch, []int32{int32(index)}, 2, images.Height, images.Width)
			out, err := exec.Exec(pixels, params)
			if err != nil {
				return sheet, err
			}
			flat := tensors.MustCopyFlatData[float32](out[0])
			half := len(flat) / 2
			line = append(line, picture(flat[:half], images.Height, images.Width), picture(flat[half:], images.Height, images.Width))
		}
		sheet.RowLabels = append(sheet.RowLabels, strings.ReplaceAll(row.Name, "+", " + "))
		sheet.Images = append(sheet.Images, line)
	}
	return sheet, nil
}

// picture makes an image of pixels in [0, 1], [height, width, 3].
func picture(pixels []float32, height, width int) image.Image {
	im := image.NewRGBA(image.Rect(0, 0, width, height))
	for p := range height * width {
		for channel := range 3 {
			im.Pix[4*p+channel] = uint8(pixels[3*p+channel]*255 + 0.5)
		}
		im.Pix[4*p+3] = 255
	}
	return im
}

// EffectAugCurves draws the course of a run: loss and k-NN accuracy, and the collapse gauges, against the epoch.
func EffectAugCurves(points []Point) figures.CurvesRow {
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
