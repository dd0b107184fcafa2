// Package features draws what encoders make of images: principal components, correspondences, attention, t-SNE, and the parts of the method.
package features

import (
	"cmp"
	"context"
	"fmt"
	"image"
	"math"
	"path/filepath"
	"slices"

	"github.com/dsnet/try"
	"github.com/gomlx/compute"
	"github.com/samber/lo"
	"github.com/semcon/semcon/analysis/stats"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/weights"
	"gonum.org/v1/gonum/floats"
)

// AttentionMaps says how many maps a figure of attention shows; the paper's has three of each kind.
type AttentionMaps struct {
	Heads  int // Heads of [CLS], the first ones; 0 for all.
	Filter int // Maps of the filter: of the heads of prototypes, those that vary most over the images and overlap least; 0 for all.
}

// attentionSide is the longer side of a picture in pixels.
const attentionSide = 112

// Draw draws attention maps as the paper does (Fig. vis_attn): a column an image, below it what the heads of [CLS] in the last block attend to, and
// below those how much each patch takes of a prototype of the Object-Aware Filter, by head, if the encoder has one. Each map has its own scale, and the
// title says which of all maps are shown.
func (m AttentionMaps) Draw(frozen *evaluation.FeatureExtractor, images []evaluation.Image) (_ figures.ImageGrid, err error) {
	defer try.Handle(&err)
	sheet := figures.ImageGrid{Scale: 1, RowLabels: []string{"image"}, Images: make([][]image.Image, 1)}
	var all []evaluation.Attention
	for _, im := range images {
		a := try.E1(frozen.Attention(im))
		all = append(all, a)
		sheet.ColumnLabels = append(sheet.ColumnLabels, shortened(im.Name))
		sheet.Images[0] = append(sheet.Images[0], figures.Fitted(figures.NewImage(im.RGB(frozen.Preprocessing), im.Height, im.Width), attentionSide, true))
	}
	row := func(label string, of func(a evaluation.Attention) []float64) {
		var line []image.Image
		for i, a := range all {
			heat := figures.HeatImage(of(a), a.Columns, images[i].Height, images[i].Width)
			line = append(line, figures.Fitted(heat, attentionSide, false))
		}
		sheet.RowLabels, sheet.Images = append(sheet.RowLabels, label), append(sheet.Images, line)
	}
	heads := frozen.ViT.NumHeads
	shown := cmp.Or(min(m.Heads, heads), heads)
	which := lo.Ternary(shown == heads, fmt.Sprintf("all %d", heads), fmt.Sprintf("the first %d of %d", shown, heads))
	sheet.Title = fmt.Sprintf("Attention of [CLS] by head, %s: pale is more", which)
	for h := range shown {
		row(fmt.Sprintf("[CLS], head %d", h+1), func(a evaluation.Attention) []float64 { return a.Class[h] })
	}
	if frozen.ViT.Prototypes == 0 || frozen.ViT.Filter == encoder.ResidualBlock {
		return sheet, nil
	}
	chosen := m.chosen(all, heads)
	if which = "all maps"; len(chosen) < frozen.ViT.Prototypes*heads {
		which = fmt.Sprintf("the %d of %d maps that vary most and repeat each other least", len(chosen), frozen.ViT.Prototypes*heads)
	}
	sheet.Title += "\nand of patches to the filter's prototypes, " + which
	for _, place := range chosen {
		prototype, head := place/heads, place%heads
		row(fmt.Sprintf("prototype %d, head %d", prototype+1, head+1), func(a evaluation.Attention) []float64 { return a.Filter[prototype][head] })
	}
	return sheet, nil
}

// chosen returns the filter's maps to show, prototype·heads + head: first that of the highest deviation over all images. Then the deviation of each map counts less, the
// more it correlates with a chosen one, so that no two show the same patches.
func (m AttentionMaps) chosen(all []evaluation.Attention, heads int) (places []int) {
	count := len(all[0].Filter) * heads
	if m.Filter == 0 {
		return lo.Range(count)
	}
	var maps [][]float64 // Less their means.
	var deviations []float64
	for place := range count {
		values := lo.FlatMap(all, func(a evaluation.Attention, _ int) []float64 { return a.Filter[place/heads][place%heads] })
		floats.AddConst(-stats.MeanInterval(values).Mean, values)
		maps, deviations = append(maps, values), append(deviations, floats.Norm(values, 2))
	}
	left := slices.Clone(deviations)
	for range min(m.Filter, count) {
		best := floats.MaxIdx(left)
		places, left[best] = append(places, best), -1
		for place, values := range maps {
			correlation := floats.Dot(values, maps[best]) / max(deviations[place]*deviations[best], 1e-12)
			left[place] = min(left[place], deviations[place]*max(1-correlation, 0))
		}
	}
	return places
}

// shortened is a file's name without folders that fits above a picture.
func shortened(name string) string {
	const most = 15
	if name == "" {
		return ""
	}
	short := []rune(filepath.Base(name))
	if len(short) > most {
		short = append(short[:most-1], '…')
	}
	return string(short)
}

// Framework draws the method as the paper's figure of it, with what a step of a run computes in each box.
func Framework(g sccore.Intermediates) (_ figures.Schematic, err error) {
	defer try.Handle(&err)
	const frameworkSide = 120 // Height and width of a picture, in pixels.
	f := figures.Schematic{Title: fmt.Sprintf("Step %d of the method", g.Done+1), Columns: 4, Rows: 3, Kinds: []string{"online branch", "target branch", "losses"}}
	square := func(pixels []float32, side int, smooth bool) []image.Image {
		return []image.Image{figures.Resized(figures.NewImage(pixels, side, side), frameworkSide, frameworkSide, smooth)}
	}
	view := func(pixels []float32) []image.Image { return square(pixels, g.ViewSize, true) }
	patches := func(pixels []float32) []image.Image { return square(pixels, g.Grid, false) }
	colours := try.E1(componentColours(wide(slices.Concat(g.OnlineTokens, g.TargetTokens), g.Dim)))
	heat := func(scores []float32) []image.Image { // Of the place in the middle of x, over the places of its partner.
		middle := g.Grid/2*g.Grid + g.Grid/2
		return []image.Image{figures.HeatImage(wide(scores, g.Grid*g.Grid)[middle], g.Grid, frameworkSide, frameworkSide)}
	}
	const online, target, loss = 0, 1, 2
	size, shape := fmt.Sprintf("%d×%d pixels", g.ViewSize, g.ViewSize), fmt.Sprintf("%d×%d patches × %d", g.Grid, g.Grid, g.Dim)
	overlap := fmt.Sprintf("%d×%d places × %d", g.Grid, g.Grid, g.Outputs)
	filter := lo.Ternary(g.ViT.Prototypes > 0, fmt.Sprintf("filter of %d prototypes", g.ViT.Prototypes), g.ViT.Name)
	pairs := fmt.Sprintf("%d pairs of patches", len(g.P))
	from := map[string]string{sccore.FromBackbone: "of the encoder's patches", sccore.FromLabels: "from the labels", sccore.FromTeacher: "from another encoder"}[g.From]
	backbone := g.From == sccore.FromBackbone // Of both branches.
	line := func(name string, value, lambda float64) string {
		return fmt.Sprintf("%s %.3f, λ %.2g", name, value, lambda)
	}
	f.Boxes = []figures.SchematicBox{
		{Row: 2, Column: 0, Kind: online, Title: "view v1 of x", Pictures: view(g.Online), Lines: []string{size}},
		{Row: 2, Column: 1, Kind: online, Title: "encoder and filter", Pictures: patches(colours[:len(colours)/2]), Lines: []string{shape, filter}},
		{Row: 2, Column: 2, Kind: online, Title: "head", Pictures: patches(assignmentColours(g.OnlineAssignments, g.Outputs)), Lines: []string{overlap, "shown: its softmax"}},
		{Row: 2, Column: 3, Kind: online, Title: "correspondences p", Pictures: heat(g.P), Lines: lo.Compact([]string{pairs, lo.Ternary(backbone, from, "")})},
		{Row: 0, Column: 0, Kind: target, Title: "view v2 of x", Pictures: view(g.Target), Lines: []string{size}},
		{Row: 0, Column: 1, Kind: target, Title: "encoder and filter", Pictures: patches(colours[len(colours)/2:]), Lines: []string{shape, "follows the online branch"}},
		{Row: 0, Column: 2, Kind: target, Title: "head", Pictures: patches(assignmentColours(g.TargetAssignments, g.Outputs)), Lines: []string{overlap, "shown: Sinkhorn–Knopp"}},
		{Row: 0, Column: 3, Kind: target, Title: "correspondences q", Pictures: heat(g.Q), Lines: lo.Compact([]string{pairs, from})},
		{Row: 1, Column: 0, Kind: online, Title: "partner x′", Pictures: view(g.Partner), Lines: []string{"another image of the batch,", "for p and q"}},
		{Row: 1, Column: 1, Kind: loss, Title: "losses of images", Lines: []string{
			line("alignment", g.Losses.ImageAlignment, g.Lambdas.ImageAlignment), line("concentration", g.Losses.ImageConcentration, g.Lambdas.ImageConcentration), line("prototypes", g.Losses.Prototypes, g.Lambdas.Prototypes), "[CLS] has its own head",
		}},
		{Row: 1, Column: 2, Kind: loss, Title: "patch alignment", Lines: []string{line("L_align", g.Losses.PatchAlignment, g.Lambdas.PatchAlignment), "the online branch predicts", "the target's assignments"}},
		{Row: 1, Column: 3, Kind: loss, Title: "patch concentration", Lines: []string{line("CoTAP", g.Losses.PatchConcentration, g.Lambdas.PatchConcentration), "p should rank the pairs", "as q ranks them"}},
	}
	for _, pair := range [][2]int{{0, 1}, {1, 2}, {2, 3}, {1, 9}, {2, 10}, {3, 11}} { // The target branch is the same, four boxes on.
		f.Arrows = append(f.Arrows, figures.SchematicArrow{From: pair[0], To: pair[1]})
		f.Arrows = append(f.Arrows, figures.SchematicArrow{From: pair[0] + 4, To: pair[1] + lo.Ternary(pair[1] < 4, 4, 0), Dashed: true})
	}
	f.Arrows = slices.DeleteFunc(f.Arrows, func(a figures.SchematicArrow) bool { // Of heads that make no correspondences.
		return a.From == 2 && a.To == 3 && backbone || a.From == 6 && a.To == 7 && from != ""
	})
	return f, nil
}

// assignmentColours are the colours of places by the output that each is assigned to most, paler where the assignment is spread over many.
func assignmentColours(assignments []float32, outputs int) (pixels []float32) {
	for shares := range slices.Chunk(assignments, outputs) {
		best, entropy := 0, 0.0
		for k, a := range shares {
			if a > shares[best] {
				best = k
			}
			if a > 0 {
				entropy -= float64(a) * math.Log(float64(a))
			}
		}
		strength := float32(1 - 0.8*entropy/math.Log(float64(max(outputs, 2))))
		colour := figures.ClassColour(uint8(1 + best%20))
		paled := func(level uint8, _ int) float32 { return min(max(1-strength*(1-float32(level)/255), 0), 1) }
		pixels = append(pixels, lo.Map([]uint8{colour.R, colour.G, colour.B}, paled)...)
	}
	return pixels
}

// Viewer draws the features of a few images.
type Viewer struct {
	Names []string // Of the images in figures, such as names of files; without them the images are scenes without names.

	config  sccore.Config // The method's configuration, with the encoder and the views.
	size    int           // Height and width in pixels at which images are encoded.
	backend compute.Backend
	scenes  datasets.Source
	images  []evaluation.Image
	shown   []image.Image
}

// NewViewer returns a viewer of the first count images of a set, at least 1, encoded at size pixels.
func NewViewer(b compute.Backend, config sccore.Config, size int, images datasets.Source, count int) (_ *Viewer, err error) {
	defer try.Handle(&err)
	w := &Viewer{config: config, size: size, backend: b, scenes: images}
	preprocessing := datasets.DefaultPreprocessing()
	for im, err := range evaluation.ImagesOf(images, preprocessing, size, count, nil) {
		try.E(err)
		w.images, w.shown = append(w.images, im), append(w.shown, figures.NewImage(im.RGB(preprocessing), im.Height, im.Width))
	}
	if len(w.images) < max(count, 1) {
		return nil, fmt.Errorf("%d scenes to show, want %d", len(w.images), max(count, 1))
	}
	return w, nil
}

// names returns the names of scenes in figures, shortened, and nil if they have none.
func (w *Viewer) names() []string {
	return lo.Ternary(w.Names == nil, nil, lo.Map(w.Names, func(name string, _ int) string { return shortened(name) }))
}

// enlargement is the factor by which scenes are enlarged: small scenes become about 130 pixels large.
func (w *Viewer) enlargement() int { return max(1, 130/w.size) }

// NamedEncoder is the file of an encoder and its name in figures. An empty file means random weights.
type NamedEncoder struct{ Name, File string }

// open loads the encoder in a file, or one with random weights if the file name is empty. The caller closes it.
func (w *Viewer) open(file string) (_ *evaluation.Encoder, err error) {
	defer try.Handle(&err)
	if file == "" {
		v, store := try.E2(evaluation.RandomViT(w.config.Encoder, 0))
		return evaluation.NewEncoder(w.backend, v, store, 1, 0)
	}
	v := try.E1(encoder.ViTByName(w.config.Encoder))
	v.Positions, v.Prototypes, v.BlocksAfterFilter = w.config.Positions, w.config.Prototypes, w.config.BlocksAfterFilter
	read := try.E1(weights.ReadViT(file, v, ""))
	if len(read.Missing) > 0 {
		read.ViT.Prototypes = 0 // The encoder's stage has no filter.
	}
	return evaluation.OpenEncoder(w.backend, read, 1, 0)
}

// encoded holds an encoder's patch features of the viewer's scenes.
type encoded struct {
	rows, columns int
	patches       [][]float64 // Scene by scene. [scenes·rows·columns][Dim]
}

// encode runs the encoder in a file, or one with random weights if the file name is empty.
func (w *Viewer) encode(file string) (_ encoded, err error) {
	defer try.Handle(&err)
	opened := try.E1(w.open(file))
	defer opened.Close()
	out, err := evaluation.Encode(context.Background(), opened.FeatureExtractor, w.scenes, w.size, len(w.images), true)
	return encoded{out.Rows, out.Columns, wide(out.Patches, opened.ViT.Dim)}, err
}

// scene returns the patch features of a scene.
func (s encoded) scene(i int) [][]float64 {
	places := s.rows * s.columns
	return s.patches[i*places : (i+1)*places]
}

// alike returns the cosines of a feature with the patches of a scene.
func (s encoded) alike(query []float64, scene int) []float64 {
	return lo.Map(s.scene(scene), func(patch []float64, _ int) float64 {
		return floats.Dot(query, patch) / max(floats.Norm(query, 2)*floats.Norm(patch, 2), 1e-12)
	})
}

// wide splits values into vectors.
func wide(values []float32, dim int) [][]float64 {
	return lo.Chunk(lo.Map(values, func(x float32, _ int) float64 { return float64(x) }), dim)
}

// Components draws the patch features of encoders: their first three principal components over all scenes as red, green and blue.
func (w *Viewer) Components(encoders ...NamedEncoder) (_ figures.ImageGrid, err error) {
	defer try.Handle(&err)
	sheet := figures.ImageGrid{Title: "Patch features: three principal components as colours", ColumnLabels: []string{"scene"}, Scale: w.enlargement(), RowLabels: w.names()}
	if w.Names != nil {
		sheet.ColumnLabels[0] = "image"
	}
	sheet.Images = lo.Map(w.shown, func(shown image.Image, _ int) []image.Image { return []image.Image{shown} })
	for _, e := range encoders {
		s := try.E1(w.encode(e.File))
		colours, err := componentColours(s.patches)
		if err != nil {
			return sheet, fmt.Errorf("%s: %w", e.Name, err)
		}
		sheet.ColumnLabels = append(sheet.ColumnLabels, e.Name)
		part := 3 * s.rows * s.columns
		for i, im := range w.images {
			picture := figures.NewImage(colours[i*part:(i+1)*part], s.rows, s.columns)
			sheet.Images[i] = append(sheet.Images[i], figures.Resized(picture, im.Width, im.Height, false))
		}
	}
	return sheet, nil
}

// Correspondences draws, for the middle patch of each scene but the last, its cosines with the patches of the next scene, pale where they are high.
func (w *Viewer) Correspondences(encoders ...NamedEncoder) (_ figures.ImageGrid, err error) {
	defer try.Handle(&err)
	sheet := figures.ImageGrid{
		Title: "How alike patches of another scene are to the marked patch", ColumnLabels: []string{"patch", "other scene"}, Scale: 1, Legend: figures.CosineLegend(),
	}
	if names := w.names(); names != nil {
		sheet.Title, sheet.ColumnLabels[1] = "How alike patches of the next image are to the marked patch", "next image"
		sheet.RowLabels = lo.Times(len(names)-1, func(i int) string { return names[i] + ",\nthen " + names[i+1] })
	}
	scale := w.enlargement()
	sheet.Images = lo.Times(len(w.shown)-1, func(i int) []image.Image { return []image.Image{nil, figures.DrawBoxes(w.shown[i+1], scale)} })
	for _, e := range encoders {
		s := try.E1(w.encode(e.File))
		sheet.ColumnLabels = append(sheet.ColumnLabels, e.Name)
		middle := s.rows/2*s.columns + s.columns/2
		for i := range sheet.Images {
			sheet.Images[i][0] = figures.DrawBoxes(w.shown[i], scale, figures.Box{}, s.patchBox(middle, 0))
			sheet.Images[i] = append(sheet.Images[i], w.heat(s, s.alike(s.scene(i)[middle], i+1), i+1))
		}
	}
	return sheet, nil
}

// heat draws a cosine of each patch of a scene.
func (w *Viewer) heat(s encoded, cosines []float64, scene int) image.Image {
	bounds, scale := w.shown[scene].Bounds(), w.enlargement()
	return figures.CosineImage(cosines, s.columns, scale*bounds.Dy(), scale*bounds.Dx())
}

// patchBox is the box around a patch, of at least this height and width as shares of the image.
func (s encoded) patchBox(place int, least float64) figures.Box {
	height, width := max(1/float64(s.rows), least), max(1/float64(s.columns), least)
	middleY, middleX := (float64(place/s.columns)+0.5)/float64(s.rows), (float64(place%s.columns)+0.5)/float64(s.columns)
	return figures.Box{Top: middleY - height/2, Left: middleX - width/2, Height: height, Width: width}
}

// Point is a place in an image, in shares of its width and height from the upper left corner: 0.5, 0.5 is the middle.
type Point struct{ X, Y float64 }

// Points draws, for each of some points of the first scene, the cosines of its framed patch with the patches of every scene, and the patch most like it.
func (w *Viewer) Points(encoder NamedEncoder, points ...Point) (_ figures.ImageGrid, err error) {
	defer try.Handle(&err)
	const leastFrame = 0.1 // As a share of the image, so that a frame can be seen.
	sheet := figures.ImageGrid{Title: "Patches that are like the one at a point", ColumnLabels: []string{"point"}, Scale: 1, Legend: figures.CosineLegend()}
	for i := range w.shown {
		label := lo.Ternary(len(w.shown) > 1, fmt.Sprintf("likeness, image %d", i+1), "likeness to it")
		sheet.ColumnLabels = append(sheet.ColumnLabels, label, "most alike")
	}
	s := try.E1(w.encode(encoder.File))
	scale := w.enlargement()
	for _, at := range points {
		if !(at.X >= 0 && at.X < 1 && at.Y >= 0 && at.Y < 1) {
			return sheet, fmt.Errorf("point %g, %g: want shares of the image from 0 up to 1", at.X, at.Y)
		}
		place := int(at.Y*float64(s.rows))*s.columns + int(at.X*float64(s.columns))
		row := []image.Image{figures.DrawBoxes(figures.Paled(w.shown[0]), scale, s.patchBox(place, leastFrame))}
		for i, shown := range w.shown {
			cosines := s.alike(s.scene(0)[place], i)
			others := slices.Clone(cosines)
			if i == 0 {
				others[place] = -2 // It is most like itself.
			}
			best := slices.Index(others, slices.Max(others))
			row = append(row, w.heat(s, cosines, i), figures.DrawBoxes(figures.Paled(shown), scale, figures.Box{}, s.patchBox(best, leastFrame)))
		}
		sheet.RowLabels = append(sheet.RowLabels, fmt.Sprintf("%g, %g", at.X, at.Y))
		sheet.Images = append(sheet.Images, row)
	}
	return sheet, nil
}

// Attention is [AttentionMaps.Draw] of the viewer's scenes, with as many maps as in the paper.
func (w *Viewer) Attention(file string) (_ figures.ImageGrid, err error) {
	defer try.Handle(&err)
	opened := try.E1(w.open(file))
	defer opened.Close()
	images := slices.Clone(w.images)
	for i := range images {
		if images[i].Name = fmt.Sprintf("scene %d", i+1); w.Names != nil {
			images[i].Name = w.Names[i]
		}
	}
	return AttentionMaps{Heads: 3, Filter: 3}.Draw(opened.FeatureExtractor, images)
}
