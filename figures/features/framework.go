package features

import (
	"fmt"
	"image"
	"math"

	"github.com/semcon/semcon/analysis/stats"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/encoder"
)

// frameworkSide is the height and width of a picture in [Framework], in pixels.
const frameworkSide = 120

// Framework draws the method as the paper's figure of its framework does, with what a step of a run computes in each box: the views of an image, the maps of
// both encoders, the assignments of the places that both views show, the correspondences with another image, and the losses. g is the glimpse, v the
// encoder, and title says which run it is.
func Framework(g sccore.Glimpse, v encoder.ViT, title string) (figures.Schematic, error) {
	f := figures.Schematic{Title: title, Columns: 4, Rows: 3, Kinds: []string{"online branch", "target branch", "losses"}}
	view := func(pixels []float32) image.Image {
		return figures.Resized(figures.NewImage(pixels, g.ViewSize, g.ViewSize), frameworkSide, frameworkSide, true)
	}
	maps, err := colourMaps(g.Grid, g.Dim, g.OnlineTokens, g.TargetTokens)
	if err != nil {
		return f, err
	}
	heat := func(scores []float32) image.Image { // Of the place in the middle of x, over the places of its partner.
		places := g.Grid * g.Grid
		middle := g.Grid/2*g.Grid + g.Grid/2
		return figures.HeatImage(wide(scores[middle*places:(middle+1)*places]), g.Grid, frameworkSide, frameworkSide)
	}
	const online, target, loss = 0, 1, 2
	size, shape := fmt.Sprintf("%d×%d pixels", g.ViewSize, g.ViewSize), fmt.Sprintf("%d×%d patches × %d", g.Grid, g.Grid, g.Dim)
	overlap := fmt.Sprintf("%d×%d places × %d", g.Grid, g.Grid, g.Outputs)
	filter := v.Name
	if v.Prototypes > 0 {
		filter = fmt.Sprintf("filter of %d prototypes", v.Prototypes)
	}
	pairs := fmt.Sprintf("%d pairs of patches", len(g.P))
	line := func(name string, i int, lambda float64) string {
		return fmt.Sprintf("%s %.3f, λ %.2g", name, g.Losses[i], lambda)
	}
	f.Boxes = []figures.SchematicBox{
		{Row: 0, Column: 0, Kind: online, Title: "view v1 of x", Pictures: []image.Image{view(g.Online)}, Lines: []string{size}},
		{Row: 0, Column: 1, Kind: online, Title: "encoder and filter", Pictures: maps[:1], Lines: []string{shape, filter}},
		{Row: 0, Column: 2, Kind: online, Title: "head, softmax", Pictures: []image.Image{assignmentMap(g.OnlineAssignments, g.Outputs, g.Grid)}, Lines: []string{overlap}},
		{Row: 0, Column: 3, Kind: online, Title: "correspondences p", Pictures: []image.Image{heat(g.P)}, Lines: []string{pairs}},
		{Row: 1, Column: 0, Kind: target, Title: "view v2 of x", Pictures: []image.Image{view(g.Target)}, Lines: []string{size}},
		{Row: 1, Column: 1, Kind: target, Title: "encoder and filter", Pictures: maps[1:], Lines: []string{shape, "moves after the online one"}},
		{Row: 1, Column: 2, Kind: target, Title: "head, Sinkhorn–Knopp", Pictures: []image.Image{assignmentMap(g.TargetAssignments, g.Outputs, g.Grid)}, Lines: []string{overlap}},
		{Row: 1, Column: 3, Kind: target, Title: "correspondences q", Pictures: []image.Image{heat(g.Q)}, Lines: []string{pairs}},
		{Row: 2, Column: 0, Kind: online, Title: "partner x′", Pictures: []image.Image{view(g.Partner)}, Lines: []string{"another image of the batch", "takes both ways too"}},
		{Row: 2, Column: 1, Kind: loss, Title: "losses of images", Lines: []string{
			line("alignment", 1, g.Lambdas.ImageAlignment), line("concentration", 3, g.Lambdas.ImageConcentration), line("prototypes", 4, g.Lambdas.Prototypes),
		}},
		{Row: 2, Column: 2, Kind: loss, Title: "patch alignment", Lines: []string{line("L_align", 0, g.Lambdas.PatchAlignment), "the target's assignments", "are what the online", "branch should say"}},
		{Row: 2, Column: 3, Kind: loss, Title: "patch concentration", Lines: []string{line("CoTAP", 2, g.Lambdas.PatchConcentration), "p should rank the pairs", "as q ranks them"}},
	}
	f.Arrows = []figures.SchematicArrow{
		{From: 0, To: 1}, {From: 1, To: 2}, {From: 2, To: 3}, {From: 4, To: 5, Dashed: true}, {From: 5, To: 6, Dashed: true}, {From: 6, To: 7, Dashed: true},
		{From: 6, To: 10, Dashed: true}, {From: 7, To: 11, Dashed: true},
	}
	return f, nil
}

// colourMaps draws maps of features, [grid, grid, dim], in the colours of their common principal components.
func colourMaps(grid, dim int, maps ...[]float32) (pictures []image.Image, err error) {
	var rows [][]float64
	for _, values := range maps {
		for begin := 0; begin < len(values); begin += dim {
			rows = append(rows, wide(values[begin:begin+dim]))
		}
	}
	components, err := stats.PrincipalComponents(rows, 3)
	if err != nil {
		return nil, err
	}
	low, high := middleRange(components)
	for m := range maps {
		pixels := make([]float32, grid*grid*3)
		for p := range grid * grid {
			for c := range 3 {
				pixels[3*p+c] = shareOf(components[m*grid*grid+p][c], low[c], high[c])
			}
		}
		pictures = append(pictures, figures.Resized(figures.NewImage(pixels, grid, grid), frameworkSide, frameworkSide, false))
	}
	return pictures, nil
}

// assignmentMap draws the output that each place is assigned to most, a colour for each, paler where the assignment is spread over many.
func assignmentMap(assignments []float32, outputs, grid int) image.Image {
	pixels := make([]float32, grid*grid*3)
	for p := range grid * grid {
		best, entropy := 0, 0.0
		for k, a := range assignments[p*outputs : (p+1)*outputs] {
			if a > assignments[p*outputs+best] {
				best = k
			}
			if a > 0 {
				entropy -= float64(a) * math.Log(float64(a))
			}
		}
		strength := float32(1 - 0.8*entropy/math.Log(float64(max(outputs, 2))))
		colour := figures.ClassColour(uint8(1 + best%20))
		for c, level := range []uint8{colour.R, colour.G, colour.B} {
			pixels[3*p+c] = min(max(1-strength*(1-float32(level)/255), 0), 1)
		}
	}
	return figures.Resized(figures.NewImage(pixels, grid, grid), frameworkSide, frameworkSide, false)
}

func wide(values []float32) []float64 {
	all := make([]float64, len(values))
	for i, x := range values {
		all[i] = float64(x)
	}
	return all
}
