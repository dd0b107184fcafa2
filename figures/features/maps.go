package features

import (
	"cmp"
	"fmt"
	"image"
	"math"
	"path/filepath"
	"slices"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/analysis/stats"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/evaluation"
)

// AttentionMaps says how many maps a figure of attention shows; the paper's has three of each kind.
type AttentionMaps struct {
	Heads  int // Heads of [CLS], the first ones; 0 for all.
	Filter int // Maps of the filter: of the heads of prototypes, those that vary most over the images; 0 for all.
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
	sheet.Title = fmt.Sprintf("Attention of [CLS] by head, %s: pale is more", partOf(shown, heads))
	for h := range shown {
		row(fmt.Sprintf("[CLS], head %d", h+1), func(a evaluation.Attention) []float64 { return a.Class[h] })
	}
	if frozen.ViT.Prototypes == 0 || frozen.ViT.Filter == encoder.ResidualBlock {
		return sheet, nil
	}
	chosen := m.chosen(all, heads)
	which := "all maps"
	if all := frozen.ViT.Prototypes * heads; len(chosen) < all {
		which = fmt.Sprintf("the %d of %d maps that vary most", len(chosen), all)
	}
	sheet.Title += "\nand of patches to the filter's prototypes, " + which
	for _, place := range chosen {
		prototype, head := place/heads, place%heads
		row(fmt.Sprintf("prototype %d, head %d", prototype+1, head+1), func(a evaluation.Attention) []float64 { return a.Filter[prototype][head] })
	}
	return sheet, nil
}

// chosen returns the filter's maps to show, prototype·heads + head, by falling deviation over all images.
func (m AttentionMaps) chosen(all []evaluation.Attention, heads int) (places []int) {
	var deviations []float64
	for place := range len(all[0].Filter) * heads {
		values := lo.FlatMap(all, func(a evaluation.Attention, _ int) []float64 { return a.Filter[place/heads][place%heads] })
		places, deviations = append(places, place), append(deviations, stats.MeanInterval(values).SD)
	}
	if m.Filter == 0 {
		return places
	}
	slices.SortStableFunc(places, func(a, b int) int { return cmp.Compare(deviations[b], deviations[a]) })
	return places[:min(m.Filter, len(places))]
}

// partOf says how much of a number is shown: "the first 3 of 6", or "all 6".
func partOf(part, all int) string {
	return lo.Ternary(part == all, fmt.Sprintf("all %d", all), fmt.Sprintf("the first %d of %d", part, all))
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

// frameworkSide is the height and width of a picture in [Framework], in pixels.
const frameworkSide = 120

// Framework draws the method as the paper's figure of it, with what a step of a run computes in each box. title says which run it is.
func Framework(g sccore.Intermediates, v encoder.ViT, title string) (_ figures.Schematic, err error) {
	defer try.Handle(&err)
	f := figures.Schematic{Title: title, Columns: 4, Rows: 3, Kinds: []string{"online branch", "target branch", "losses"}}
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
	filter := lo.Ternary(v.Prototypes > 0, fmt.Sprintf("filter of %d prototypes", v.Prototypes), v.Name)
	pairs := fmt.Sprintf("%d pairs of patches", len(g.P))
	line := func(name string, value, lambda float64) string {
		return fmt.Sprintf("%s %.3f, λ %.2g", name, value, lambda)
	}
	f.Boxes = []figures.SchematicBox{
		{Row: 0, Column: 0, Kind: online, Title: "view v1 of x", Pictures: view(g.Online), Lines: []string{size}},
		{Row: 0, Column: 1, Kind: online, Title: "encoder and filter", Pictures: patches(colours[:len(colours)/2]), Lines: []string{shape, filter}},
		{Row: 0, Column: 2, Kind: online, Title: "head, softmax", Pictures: patches(assignmentColours(g.OnlineAssignments, g.Outputs)), Lines: []string{overlap}},
		{Row: 0, Column: 3, Kind: online, Title: "correspondences p", Pictures: heat(g.P), Lines: []string{pairs}},
		{Row: 1, Column: 0, Kind: target, Title: "view v2 of x", Pictures: view(g.Target), Lines: []string{size}},
		{Row: 1, Column: 1, Kind: target, Title: "encoder and filter", Pictures: patches(colours[len(colours)/2:]), Lines: []string{shape, "moves after the online one"}},
		{Row: 1, Column: 2, Kind: target, Title: "head, Sinkhorn–Knopp", Pictures: patches(assignmentColours(g.TargetAssignments, g.Outputs)), Lines: []string{overlap}},
		{Row: 1, Column: 3, Kind: target, Title: "correspondences q", Pictures: heat(g.Q), Lines: []string{pairs}},
		{Row: 2, Column: 0, Kind: online, Title: "partner x′", Pictures: view(g.Partner), Lines: []string{"another image of the batch", "takes both ways too"}},
		{Row: 2, Column: 1, Kind: loss, Title: "losses of images", Lines: []string{
			line("alignment", g.Losses.ImageAlignment, g.Lambdas.ImageAlignment), line("concentration", g.Losses.ImageConcentration, g.Lambdas.ImageConcentration), line("prototypes", g.Losses.Prototypes, g.Lambdas.Prototypes),
		}},
		{Row: 2, Column: 2, Kind: loss, Title: "patch alignment", Lines: []string{line("L_align", g.Losses.PatchAlignment, g.Lambdas.PatchAlignment), "the target's assignments", "are what the online", "branch should say"}},
		{Row: 2, Column: 3, Kind: loss, Title: "patch concentration", Lines: []string{line("CoTAP", g.Losses.PatchConcentration, g.Lambdas.PatchConcentration), "p should rank the pairs", "as q ranks them"}},
	}
	f.Arrows = []figures.SchematicArrow{
		{From: 0, To: 1}, {From: 1, To: 2}, {From: 2, To: 3}, {From: 4, To: 5, Dashed: true}, {From: 5, To: 6, Dashed: true}, {From: 6, To: 7, Dashed: true},
		{From: 6, To: 10, Dashed: true}, {From: 7, To: 11, Dashed: true},
	}
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
