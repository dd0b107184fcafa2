package features

import (
	"cmp"
	"context"
	"fmt"
	"image"
	"math"
	"slices"

	"github.com/dsnet/try"
	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/samber/lo"
	"github.com/semcon/semcon/analysis/stats"
	"github.com/semcon/semcon/analysis/tsne"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/knn"
	"github.com/semcon/semcon/sccore/views"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// PatchEmbedding draws patches of annotated images by t-SNE of their features.
type PatchEmbedding struct {
	Sample     evaluation.PatchSample
	Perplexity float64 // About how many neighbours count. Few patches lower it to a third of their number.
	Seed       uint64  // Draws the patches and the first points.
}

// Draw returns two figures of the same points: dots in the colours of classes, and pictures of patches. The title says the perplexity and the divergence.
func (e PatchEmbedding) Draw(ctx context.Context, frozen *evaluation.FeatureExtractor, set *datasets.Segmentation) (dots, pictures figures.Embedding, err error) {
	defer try.Handle(&err)
	drawn := try.E1(e.Sample.Draw(ctx, frozen, set, e.Seed))
	features := mat.NewDense(len(drawn.Patches), drawn.Dim, slices.Concat(wide(drawn.Features, drawn.Dim)...))
	perplexity := min(e.Perplexity, float64((len(drawn.Patches)-1)/3)) // More has no meaning: see [tsne.Affinities].
	affinities := try.E1(tsne.Affinities(features, perplexity))
	points, divergence := try.E2(tsne.Options{Steps: 1000, Seed: e.Seed}.Embed(ctx, affinities))
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
			a := try.E1(set.Read(p.Image))
			last, shown = p.Image, a.Image()
		}
		pictures.Pictures = append(pictures.Pictures, expanded(shown, p, drawn.Grid))
	}
	return dots, pictures, nil
}

// Figures of a patch: as in the paper (Fig. vis_tsne), the height and width shown are five times the patch's.
const (
	expansion   = 5
	pictureSide = 28 // In pixels.
)

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
	return figures.Resized(shown.SubImage(image.Rect(left, top, right, bottom)), pictureSide, pictureSide, true)
}

// componentColours are the first three principal components of vectors as red, green and blue, from 0 to 1 over the range of the middle 95 %.
func componentColours(vectors [][]float64) (pixels []float32, err error) {
	defer try.Handle(&err)
	components := try.E1(stats.PrincipalComponents(vectors, 3))
	pixels = make([]float32, 3*len(vectors))
	for c := range 3 {
		values := slices.Sorted(slices.Values(lo.Map(components, func(patch []float64, _ int) float64 { return patch[c] })))
		low, high := values[len(values)/40], values[len(values)-1-len(values)/40]
		for p, patch := range components {
			pixels[3*p+c] = float32(min(max((patch[c]-low)/max(high-low, 1e-12), 0), 1))
		}
	}
	return pixels, nil
}

// SparseMatches draws sparse correspondences: patches of two pictures whose features are each other's nearest.
type SparseMatches struct {
	Size      int     // Height and width in pixels at which pictures are encoded.
	Pairs     int     // Pairs of pictures.
	Threshold float64 // Least cosine similarity.
	Most      int     // Lines of a pair, the most similar ones or those that Salient chooses; 0 for all.
	// Salient chooses lines by the rule of Amir et al. (2021) for key points. Both patches draw the attention of [CLS], over all heads here and over four there. Their
	// features form Most clusters, and each cluster gives the pair that draws most attention. Amir et al. match keys of block 9 with their surroundings.
	Salient bool
}

// The two kinds of lines. The first has the colour and dash of a figure's first series.
const (
	agrees = iota
	differs
)

// match draws a pair of pictures, resized to a square as [evaluation.PatchSample] does, with lines between the most similar patches. place is the row and the column
// of a patch of the first or the second picture in a grid, and agree whether two patches do.
func (m SparseMatches) match(
	frozen *evaluation.FeatureExtractor, pictures [2]image.Image, features [2][]float32, dim, grid int, place func(which, i int) (row, column int), agree func(first, second int) bool,
) (pair figures.MatchedPair, err error) {
	const side = 190 // In pixels.
	pair.First, pair.Second = figures.Resized(pictures[0], side, side, true), figures.Resized(pictures[1], side, side, true)
	matches, err := knn.Mutual(features[0], features[1], dim, m.Threshold)
	if m.Salient && err == nil {
		matches, err = m.salient(frozen, pictures, matches, features, dim, place)
	}
	slices.SortStableFunc(matches, func(a, b knn.Match) int {
		return cmp.Or(cmp.Compare(b.Similarity, a.Similarity), cmp.Compare(a.First, b.First))
	})
	if m.Most > 0 {
		matches = matches[:min(m.Most, len(matches))]
	}
	middle := func(which, i int) (y, x float64) {
		row, column := place(which, i)
		return (float64(row) + 0.5) / float64(grid), (float64(column) + 0.5) / float64(grid)
	}
	for _, match := range matches {
		var line figures.MatchLine
		line.FromY, line.FromX = middle(0, match.First)
		line.ToY, line.ToX = middle(1, match.Second)
		if !agree(match.First, match.Second) {
			line.Kind = differs
		}
		pair.Lines = append(pair.Lines, line)
	}
	return pair, err
}

func (m SparseMatches) title() string {
	return lo.Ternary(m.Salient, "Key points by the rule of Amir et al.,", "Mutual nearest patches")
}

// salient chooses among the matches of a pair of pictures; see [SparseMatches.Salient]. Their correspondences.py clusters by k-means, too.
func (m SparseMatches) salient(
	frozen *evaluation.FeatureExtractor, pictures [2]image.Image, matches []knn.Match, features [2][]float32, dim int, place func(which, i int) (row, column int),
) (chosen []knn.Match, err error) {
	defer try.Handle(&err)
	const background = 0.05 // Theirs, of the attention scaled to [0, 1].
	var maps [2][]float64
	for which, picture := range pictures {
		square := figures.Resized(picture, m.Size, m.Size, true)
		seen := try.E1(frozen.Attention(evaluation.NewImage(datasets.RGB(square), datasets.Size{Height: m.Size, Width: m.Size}, frozen.Preprocessing)))
		maps[which] = make([]float64, seen.Rows*seen.Columns)
		for _, head := range seen.Class {
			floats.Add(maps[which], head)
		}
		floats.AddConst(-floats.Min(maps[which]), maps[which])
		floats.Scale(1/max(floats.Max(maps[which]), 1e-12), maps[which])
	}
	attention := func(which, i int) float64 {
		row, column := place(which, i)
		return maps[which][row*(m.Size/frozen.ViT.PatchSize)+column]
	}
	matches = lo.Filter(matches, func(match knn.Match, _ int) bool {
		return min(attention(0, match.First), attention(1, match.Second)) > background
	})
	joint := lo.Map(matches, func(match knn.Match, _ int) []float64 {
		both := wide(slices.Concat(features[0][match.First*dim:][:dim], features[1][match.Second*dim:][:dim]), 2*dim)[0]
		floats.Scale(1/max(floats.Norm(both, 2), 1e-12), both)
		return both
	})
	best := map[int]knn.Match{}
	for i, cluster := range stats.KMeans(joint, cmp.Or(m.Most, len(joint))) {
		drawn := func(match knn.Match) float64 { return attention(0, match.First) + attention(1, match.Second) }
		if old, taken := best[cluster]; !taken || drawn(matches[i]) > drawn(old) {
			best[cluster] = matches[i]
		}
	}
	return lo.Values(best), nil
}

// OfClass draws pairs of images that show a class, as in the paper (Fig. vis_corr_pos): the classes with at least two images in turn, and of each the
// images with most of it. Patches of no object, class 0, are left out if the first class is the background. Lines agree if both patches have one class.
func (m SparseMatches) OfClass(ctx context.Context, frozen *evaluation.FeatureExtractor, set *datasets.Segmentation) (_ figures.Matches, err error) {
	defer try.Handle(&err)
	sheet := figures.Matches{
		Title: fmt.Sprintf("%s of images of a class, %s", m.title(), set.Name), Kinds: []string{"patches of the same class", "of different classes"},
	}
	drawn := try.E1(evaluation.PatchSample{Size: m.Size}.Draw(ctx, frozen, set, 0))
	first := lo.Ternary(set.Classes[0] == "background", 1, 0)
	byImage := make([][]int, set.Len()) // Places in drawn.
	counts := lo.Times(len(set.Classes), func(int) []int { return make([]int, set.Len()) })
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
			pair := try.E1(m.pairOfImages(frozen, set, drawn, [2]int{a, b}, [2][]int{byImage[a], byImage[b]}))
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
func (m SparseMatches) pairOfImages(
	frozen *evaluation.FeatureExtractor, set *datasets.Segmentation, drawn evaluation.SampledPatches, images [2]int, places [2][]int,
) (pair figures.MatchedPair, err error) {
	defer try.Handle(&err)
	var features [2][]float32
	var pictures [2]image.Image
	for which, image := range images {
		a := try.E1(set.Read(image))
		pictures[which] = a.Image()
		for _, i := range places[which] {
			features[which] = append(features[which], drawn.Feature(i)...)
		}
	}
	patch := func(which, i int) evaluation.SampledPatch { return drawn.Patches[places[which][i]] }
	return m.match(frozen, pictures, features, drawn.Dim, drawn.Grid,
		func(which, i int) (row, column int) { return patch(which, i).Row, patch(which, i).Column },
		func(first, second int) bool { return patch(0, first).Class == patch(1, second).Class })
}

// OfViews draws pairs of global views of images, as in the paper (Fig. vis_corr). Lines agree if the patches lie less than a patch apart in the image.
func (m SparseMatches) OfViews(
	b compute.Backend, frozen *evaluation.FeatureExtractor, images *datasets.Images, crops views.MultiCrop, seed uint64,
) (_ figures.Matches, err error) {
	defer try.Handle(&err)
	sheet := figures.Matches{
		Title: fmt.Sprintf("%s of two views, %s", m.title(), images.Name), Kinds: []string{"same place in the image", "different places"},
	}
	crops.Locals, crops.GlobalCropSize = 0, m.Size
	cutter := try.E1(newViewCutter(b, m.Size))
	defer cutter.Finalize()
	for i := range min(m.Pairs, images.Len()) {
		params, _ := crops.Draw(seed, 0, []int32{int32(i)}, []datasets.Size{{Height: images.Height, Width: images.Width}})
		both := try.E1(cut(cutter, images.At(i), images.Height, images.Width, params))
		pair := try.E1(m.pairOfViews(frozen, both))
		sheet.Pairs = append(sheet.Pairs, pair)
	}
	return sheet, nil
}

// pairOfViews matches all patches of two views.
func (m SparseMatches) pairOfViews(frozen *evaluation.FeatureExtractor, both pairOfViews) (pair figures.MatchedPair, err error) {
	defer try.Handle(&err)
	var features [2][]float32
	var pictures [2]image.Image
	grid := m.Size / frozen.ViT.PatchSize
	for v := range 2 {
		bytes := lo.Map(both.view(v), func(x float32, _ int) uint8 { return uint8(255*min(max(x, 0), 1) + 0.5) })
		im := evaluation.NewImage(bytes, datasets.Size{Height: m.Size, Width: m.Size}, frozen.Preprocessing)
		encoded := try.E1(frozen.ExtractAll([]evaluation.Image{im}, evaluation.Outputs{Patches: true}))
		features[v] = encoded[0][0].Patches
		pictures[v] = figures.NewImage(both.view(v), m.Size, m.Size)
	}
	inImage := func(v, place int) (y, x, height, width float64) {
		box := both.boxes[4*v:]
		across := (float64(place%grid) + 0.5) / float64(grid)
		across = lo.Ternary(both.flips[v] > 0, 1-across, across)
		height, width = float64(box[2]), float64(box[3])
		return float64(box[0]) + (float64(place/grid)+0.5)/float64(grid)*height, float64(box[1]) + across*width, height, width
	}
	return m.match(frozen, pictures, features, frozen.ViT.Dim, grid, func(_, i int) (row, column int) { return i / grid, i % grid }, func(first, second int) bool {
		y, x, height, width := inImage(0, first)
		toY, toX, toHeight, toWidth := inImage(1, second)
		return math.Abs(y-toY) < max(height, toHeight)/float64(grid) && math.Abs(x-toX) < max(width, toWidth)/float64(grid)
	})
}

// newViewCutter cuts views of size pixels out of images; see [cut]. The caller finalizes it.
func newViewCutter(b compute.Backend, size int) (*graph.Exec, error) {
	return graph.NewExec(b, func(pixels, params *graph.Node) []*graph.Node {
		boxes, flips := views.Boxes(params)
		half := func(i int) *graph.Node {
			count := params.Shape().Dim(0) / 2
			return graph.Slice(params, graph.AxisRange(i*count, (i+1)*count))
		}
		first, second := views.Overlap(half(0), half(1))
		return []*graph.Node{views.Apply(pixels, params, size), boxes, flips, graph.Concatenate([]*graph.Node{first, second}, 0)}
	})
}

// pairOfViews is two views of an image, one after the other: their pixels, their boxes in the image, whether they are flipped, and the boxes of their overlap.
type pairOfViews struct{ pixels, boxes, flips, overlaps []float32 }

// view is the pixels of the first or the second view.
func (p pairOfViews) view(i int) []float32 {
	n := len(p.pixels) / 2
	return p.pixels[i*n : (i+1)*n]
}

func cut(cutter *graph.Exec, pixels []uint8, height, width int, params *tensors.Tensor) (_ pairOfViews, err error) {
	defer try.Handle(&err)
	out := try.E1(cutter.Call(tensors.FromFlatDataAndDimensions(pixels, 1, height, width, 3), params))
	flat := func(i int) []float32 { return tensors.MustCopyFlatData[float32](out[i]) }
	return pairOfViews{flat(0), flat(1), flat(2), flat(3)}, nil
}

// NamedRecipe is a recipe of views and its name in figures.
type NamedRecipe struct {
	Name   string
	Recipe views.Recipe
}

// ViewPairs draws one image and pairs of its views, a row per recipe, as training sees them in the first epochs of the given seed.
func ViewPairs(b compute.Backend, images *datasets.Images, index, pairs int, seed uint64, recipes []NamedRecipe) (_ figures.ImageGrid, err error) {
	defer try.Handle(&err)
	sheet := figures.ImageGrid{ColumnLabels: []string{"image"}}
	for pair := range pairs {
		sheet.ColumnLabels = append(sheet.ColumnLabels, fmt.Sprintf("pair %d", pair+1), "")
	}
	cutter := try.E1(newViewCutter(b, images.Height))
	defer cutter.Finalize()
	for _, r := range recipes {
		line := []image.Image{images.Image(index)}
		for epoch := range pairs {
			pair := try.E1(cut(cutter, images.At(index), images.Height, images.Width, r.Recipe.Draw(seed, epoch, []int32{int32(index)}, 2, images.Height, images.Width)))
			line = append(line, lo.Times(2, func(v int) image.Image { return figures.NewImage(pair.view(v), images.Height, images.Width) })...)
		}
		sheet.RowLabels, sheet.Images = append(sheet.RowLabels, r.Name), append(sheet.Images, line)
	}
	return sheet, nil
}

// Views draws each scene with boxes for its two global views, and the two views with their overlap.
func (w *Viewer) Views(seed uint64) (_ figures.ImageGrid, err error) {
	defer try.Handle(&err)
	m, side := w.config.Views, w.config.ImageSize
	m.Locals = 0
	sheet := figures.ImageGrid{
		Title:        "Two global views of each scene (blue, vermilion) and their overlap (green)",
		ColumnLabels: []string{"scene", "first view", "second view"}, Scale: 1,
	}
	cutter := try.E1(newViewCutter(w.backend, m.GlobalCropSize))
	defer cutter.Finalize()
	for i := range w.images {
		canvas := make([]uint8, side*side*3)
		extent := try.E1(w.scenes.Read(i, canvas, side))
		params, _ := m.Draw(seed, 0, []int32{int32(i)}, []datasets.Size{extent})
		pair := try.E1(cut(cutter, canvas, side, side, params))
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
		sheet.RowLabels, sheet.Images = append(sheet.RowLabels, fmt.Sprintf("scene %d", i+1)), append(sheet.Images, row)
	}
	return sheet, nil
}
