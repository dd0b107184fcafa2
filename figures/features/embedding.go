package features

import (
	"context"
	"fmt"
	"image"

	"github.com/semcon/semcon/analysis/tsne"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/evaluation"
	"golang.org/x/image/draw"
	"gonum.org/v1/gonum/mat"
)

// PatchEmbedding draws patches of annotated images by t-SNE of their features.
type PatchEmbedding struct {
	Sample     evaluation.PatchSample
	Perplexity float64 // About how many neighbours count. Few patches lower it to a third of their number.
	Seed       uint64  // Draws the patches and the first points.
}

// Figures of a patch: as in the paper (Fig. vis_tsne), the height and width shown are five times those of the patch.
const (
	expansion   = 5
	pictureSide = 28 // In pixels.
)

// tsneSteps is the usual number.
const tsneSteps = 1000

// Draw returns two figures of the same points: dots in the colours of classes, and pictures of patches. The title says the perplexity and the divergence.
func (e PatchEmbedding) Draw(ctx context.Context, frozen *evaluation.FeatureExtractor, set *datasets.Segmentation) (dots, pictures figures.Embedding, err error) {
	drawn, err := e.Sample.Draw(ctx, frozen, set, e.Seed)
	if err != nil {
		return dots, pictures, err
	}
	features := mat.NewDense(len(drawn.Patches), drawn.Dim, nil)
	for i := range drawn.Patches {
		for d, x := range drawn.Feature(i) {
			features.Set(i, d, float64(x))
		}
	}
	perplexity := min(e.Perplexity, float64((len(drawn.Patches)-1)/3)) // More has no meaning: see [tsne.Affinities].
	affinities, err := tsne.Affinities(features, perplexity)
	if err != nil {
		return dots, pictures, err
	}
	points, divergence, err := tsne.Options{Steps: tsneSteps, Seed: e.Seed}.Embed(ctx, affinities)
	if err != nil {
		return dots, pictures, err
	}
	dots = figures.Embedding{
		Title:   fmt.Sprintf("%d patches of %s by t-SNE, perplexity %g, KL divergence %.2f", len(points), set.Name, perplexity, divergence),
		Classes: set.Classes,
	}
	for i, p := range points {
		dots.X, dots.Y, dots.Class = append(dots.X, p.X), append(dots.Y, p.Y), append(dots.Class, int(drawn.Patches[i].Class))
	}
	pictures = dots
	last, shown := -1, (*image.RGBA)(nil)
	for _, p := range drawn.Patches {
		if p.Image != last { // Patches come image by image.
			a, err := set.Read(p.Image)
			if err != nil {
				return dots, pictures, err
			}
			last, shown = p.Image, a.Image()
		}
		pictures.Pictures = append(pictures.Pictures, expanded(shown, p, drawn.Grid))
	}
	return dots, pictures, nil
}

// expanded cuts the surroundings of a patch out of its image.
func expanded(shown *image.RGBA, p evaluation.SampledPatch, grid int) image.Image {
	size := shown.Bounds().Size()
	along := func(place, length int) (low, high int) {
		wanted := min(expansion*length/grid, length)
		low = min(max((2*place+1)*length/(2*grid)-wanted/2, 0), length-wanted)
		return low, low + max(wanted, 1)
	}
	top, bottom := along(p.Row, size.Y)
	left, right := along(p.Column, size.X)
	picture := image.NewRGBA(image.Rect(0, 0, pictureSide, pictureSide))
	draw.CatmullRom.Scale(picture, picture.Rect, shown, image.Rect(left, top, right, bottom), draw.Src, nil)
	return picture
}
