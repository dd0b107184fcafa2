package features

import (
	"cmp"
	"context"
	"fmt"
	"image"
	"math"
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/knn"
	"github.com/semcon/semcon/sccore/views"
)

// SparseMatches draws sparse correspondences: patches of two pictures whose features are each other's nearest.
type SparseMatches struct {
	Size      int     // Height and width in pixels at which pictures are encoded.
	Pairs     int     // Pairs of pictures.
	Threshold float64 // Least cosine similarity.
	Most      int     // Lines of a pair, the most similar ones; 0 for all.
}

// matchedSide is the height and width of a picture in pixels.
const matchedSide = 190

// agreement are the two kinds of lines. The first has the colour and dash of a figure's first series.
const (
	agrees = iota
	differs
)

// OfClass draws pairs of images that show a class, as in the paper (Fig. vis_corr_pos): the classes with at least two images in turn, and of each the
// images with most of it. Patches of no object, class 0, are left out if the first class is the background. Lines agree if both patches have one class.
func (m SparseMatches) OfClass(ctx context.Context, frozen *evaluation.FeatureExtractor, set *datasets.Segmentation) (figures.Matches, error) {
	sheet := figures.Matches{
		Title: fmt.Sprintf("Mutual nearest patches of images of a class, %s", set.Name), Kinds: []string{"both patches have one class", "they have two"},
	}
	drawn, err := evaluation.PatchSample{Size: m.Size}.Draw(ctx, frozen, set, 0)
	if err != nil {
		return sheet, err
	}
	first := 0
	if set.Classes[0] == "background" {
		first = 1
	}
	byImage := make([][]int, set.Len()) // Places in drawn.
	counts := make([][]int, len(set.Classes))
	for c := range counts {
		counts[c] = make([]int, set.Len())
	}
	for i, p := range drawn.Patches {
		if int(p.Class) >= first {
			byImage[p.Image] = append(byImage[p.Image], i)
			counts[p.Class][p.Image]++
		}
	}
	// Rank r takes the images 2r and 2r+1 of each class, by falling number of its patches.
	for rank := 0; len(sheet.Pairs) < m.Pairs && 2*rank+1 < set.Len(); rank++ {
		for class := first; class < len(set.Classes) && len(sheet.Pairs) < m.Pairs; class++ {
			order := datasets.Spread(set.Len(), 0)
			slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(counts[class][b], counts[class][a]) })
			a, b := order[2*rank], order[2*rank+1]
			if counts[class][b] == 0 {
				continue
			}
			pair, err := m.pairOfImages(set, drawn, [2]int{a, b}, [2][]int{byImage[a], byImage[b]})
			if err != nil {
				return sheet, err
			}
			pair.Label = set.Classes[class]
			sheet.Pairs = append(sheet.Pairs, pair)
		}
	}
	if len(sheet.Pairs) == 0 {
		return sheet, fmt.Errorf("%s: no class has patches in two images", set.Name)
	}
	return sheet, nil
}

// pairOfImages matches patches, given by their places in drawn, of two images of a set.
func (m SparseMatches) pairOfImages(set *datasets.Segmentation, drawn evaluation.SampledPatches, images [2]int, places [2][]int) (pair figures.MatchedPair, err error) {
	var features [2][]float32
	for which, image := range images {
		a, err := set.Read(image)
		if err != nil {
			return pair, err
		}
		shown := squared(a.Image())
		if which == 0 {
			pair.First = shown
		} else {
			pair.Second = shown
		}
		for _, i := range places[which] {
			features[which] = append(features[which], drawn.Feature(i)...)
		}
	}
	matches, err := m.best(features[0], features[1], drawn.Dim)
	for _, match := range matches {
		from, to := drawn.Patches[places[0][match.First]], drawn.Patches[places[1][match.Second]]
		line := lineBetween(from.Row, from.Column, to.Row, to.Column, drawn.Grid)
		if from.Class != to.Class {
			line.Kind = differs
		}
		pair.Lines = append(pair.Lines, line)
	}
	return pair, err
}

// best returns the most similar matches.
func (m SparseMatches) best(first, second []float32, dim int) ([]knn.Match, error) {
	matches, err := knn.Mutual(first, second, dim, m.Threshold)
	slices.SortStableFunc(matches, func(a, b knn.Match) int { return cmp.Compare(b.Similarity, a.Similarity) })
	if m.Most > 0 {
		matches = matches[:min(m.Most, len(matches))]
	}
	return matches, err
}

// lineBetween joins the middles of two patches in grids of patches.
func lineBetween(row, column, toRow, toColumn, grid int) figures.MatchLine {
	middle := func(place int) float64 { return (float64(place) + 0.5) / float64(grid) }
	return figures.MatchLine{FromX: middle(column), FromY: middle(row), ToX: middle(toColumn), ToY: middle(toRow)}
}

// squared resizes a picture to a square, as [evaluation.PatchSample] does.
func squared(picture image.Image) image.Image {
	return figures.Resized(picture, matchedSide, matchedSide, true)
}

// OfViews draws pairs of global views of images, as in the paper (Fig. vis_corr). Lines agree if the patches lie less than a patch apart in the image.
func (m SparseMatches) OfViews(b compute.Backend, frozen *evaluation.FeatureExtractor, images *datasets.Images, crops views.MultiCrop, seed uint64) (figures.Matches, error) {
	sheet := figures.Matches{
		Title: fmt.Sprintf("Mutual nearest patches of two views, %s", images.Name), Kinds: []string{"one place of the image", "two places"},
	}
	crops.Locals, crops.GlobalCropSize = 0, m.Size
	exec, err := graph.NewExec(b, func(pixels, params *graph.Node) []*graph.Node {
		boxes, flips := views.Boxes(params)
		return []*graph.Node{views.Apply(pixels, params, m.Size), boxes, flips}
	})
	if err != nil {
		return sheet, err
	}
	defer exec.Finalize()
	for i := range min(m.Pairs, images.Len()) {
		params, _ := crops.Draw(seed, 0, []int32{int32(i)}, []datasets.Size{{Height: images.Height, Width: images.Width}})
		out, err := exec.Call(tensors.FromFlatDataAndDimensions(images.At(i), 1, images.Height, images.Width, 3), params)
		if err != nil {
			return sheet, err
		}
		pixels, boxes, flips := tensors.MustCopyFlatData[float32](out[0]), tensors.MustCopyFlatData[float32](out[1]), tensors.MustCopyFlatData[float32](out[2])
		pair, err := m.pairOfViews(frozen, [2][]float32{pixels[:len(pixels)/2], pixels[len(pixels)/2:]}, boxes, flips)
		if err != nil {
			return sheet, err
		}
		sheet.Pairs = append(sheet.Pairs, pair)
	}
	return sheet, nil
}

// pairOfViews matches all patches of two views, given by their pixels in [0, 1], boxes in the image and flips.
func (m SparseMatches) pairOfViews(frozen *evaluation.FeatureExtractor, pixels [2][]float32, boxes, flips []float32) (pair figures.MatchedPair, err error) {
	var features [2]evaluation.Features
	for v := range pixels {
		bytes := make([]uint8, len(pixels[v]))
		for p, x := range pixels[v] {
			bytes[p] = uint8(255*min(max(x, 0), 1) + 0.5)
		}
		im := evaluation.NewImage(bytes, datasets.Size{Height: m.Size, Width: m.Size}, frozen.Preprocessing)
		for f, err := range frozen.Features(func(yield func(evaluation.Image, error) bool) { yield(im, nil) }, true) {
			if err != nil {
				return pair, err
			}
			features[v] = f
		}
	}
	pair.First = figures.Resized(figures.NewImage(pixels[0], m.Size, m.Size), matchedSide, matchedSide, true)
	pair.Second = figures.Resized(figures.NewImage(pixels[1], m.Size, m.Size), matchedSide, matchedSide, true)
	matches, err := m.best(features[0].Patches, features[1].Patches, frozen.ViT.Dim)
	grid := features[0].Rows
	inImage := func(v, place int) (y, x, height, width float64) {
		box := boxes[4*v:]
		across := (float64(place%grid) + 0.5) / float64(grid)
		if flips[v] > 0 {
			across = 1 - across
		}
		height, width = float64(box[2]), float64(box[3])
		return float64(box[0]) + (float64(place/grid)+0.5)/float64(grid)*height, float64(box[1]) + across*width, height, width
	}
	for _, match := range matches {
		line := lineBetween(match.First/grid, match.First%grid, match.Second/grid, match.Second%grid, grid)
		y, x, height, width := inImage(0, match.First)
		toY, toX, toHeight, toWidth := inImage(1, match.Second)
		if math.Abs(y-toY) >= max(height, toHeight)/float64(grid) || math.Abs(x-toX) >= max(width, toWidth)/float64(grid) {
			line.Kind = differs
		}
		pair.Lines = append(pair.Lines, line)
	}
	return pair, err
}
