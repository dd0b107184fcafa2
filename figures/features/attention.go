package features

import (
	"cmp"
	"fmt"
	"image"
	"path/filepath"
	"slices"

	"github.com/semcon/semcon/analysis/stats"
	"github.com/semcon/semcon/figures"
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
func (m AttentionMaps) Draw(frozen *evaluation.FeatureExtractor, images []evaluation.Image) (figures.ImageGrid, error) {
	sheet := figures.ImageGrid{Scale: 1, RowLabels: []string{"image"}, Images: make([][]image.Image, 1)}
	var all []evaluation.Attention
	for _, im := range images {
		a, err := frozen.Attention(im)
		if err != nil {
			return sheet, err
		}
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
	if frozen.ViT.Prototypes == 0 {
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
		var values []float64
		for _, a := range all {
			values = append(values, a.Filter[place/heads][place%heads]...)
		}
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
	if part == all {
		return fmt.Sprintf("all %d", all)
	}
	return fmt.Sprintf("the first %d of %d", part, all)
}

// shortened is a file's name without folders that fits above a picture.
func shortened(name string) string {
	short := []rune(filepath.Base(name))
	if name == "" {
		return ""
	}
	const most = 15
	if len(short) > most {
		short = append(short[:most-1], '…')
	}
	return string(short)
}

// Attention is [AttentionMaps.Draw] of the viewer's scenes, with as many maps as in the paper.
func (w *Viewer) Attention(file string) (figures.ImageGrid, error) {
	frozen, closeAll, err := w.open(file)
	if err != nil {
		return figures.ImageGrid{}, err
	}
	defer closeAll()
	images := slices.Clone(w.images)
	for i := range images {
		if images[i].Name = fmt.Sprintf("scene %d", i+1); w.Names != nil {
			images[i].Name = w.Names[i]
		}
	}
	return AttentionMaps{Heads: 3, Filter: 3}.Draw(frozen, images)
}
