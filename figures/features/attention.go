package features

import (
	"cmp"
	"fmt"
	"image"
	"slices"

	"github.com/semcon/semcon/analysis/stats"
	"github.com/semcon/semcon/figures"
)

// Attention draws the attention of [CLS] in the last block, as the mean over heads and for the first two heads. It also draws the attention of each patch
// to prototypes of the Object-Aware Filter, for the three prototypes whose attention varies most.
func (w *Viewer) Attention(file string) (figures.ImageGrid, error) {
	sheet := figures.ImageGrid{Title: "Attention of [CLS], and of patches to prototypes of the Object-Aware Filter", ColumnLabels: []string{"scene", "[CLS], all heads", "head 1", "head 2"}, Scale: w.enlargement()}
	s, err := w.encode(file)
	if err != nil {
		return sheet, err
	}
	places := s.rows * s.columns
	// prototypeMaps are the means over heads, [scenes][Prototypes][rows·columns].
	var prototypeMaps [][][]float64
	for _, of := range s.filter {
		prototypes := w.config.Prototypes
		heads := len(of) / (places * prototypes)
		maps := make([][]float64, prototypes)
		for m := range maps {
			maps[m] = make([]float64, places)
			for h := range heads {
				for p := range places {
					maps[m][p] += of[(h*places+p)*prototypes+m] / float64(heads)
				}
			}
		}
		prototypeMaps = append(prototypeMaps, maps)
	}
	var chosen []int
	if prototypeMaps != nil {
		for m := range prototypeMaps[0] {
			chosen = append(chosen, m)
		}
		spread := func(m int) float64 {
			var all []float64
			for _, maps := range prototypeMaps {
				all = append(all, maps[m]...)
			}
			return stats.MeanInterval(all).SD
		}
		slices.SortStableFunc(chosen, func(a, b int) int { return cmp.Compare(spread(b), spread(a)) })
		chosen = chosen[:min(3, len(chosen))]
		for _, m := range chosen {
			sheet.ColumnLabels = append(sheet.ColumnLabels, fmt.Sprintf("prototype %d", m))
		}
	}
	for i, im := range w.images {
		mean := make([]float64, places)
		for _, head := range s.attention[i] {
			for p, x := range head {
				mean[p] += x / float64(len(s.attention[i]))
			}
		}
		row := []image.Image{w.shown[i]}
		for _, values := range append([][]float64{mean}, s.attention[i][:2]...) {
			row = append(row, figures.HeatImage(values, s.columns, im.Height, im.Width))
		}
		for _, m := range chosen {
			row = append(row, figures.HeatImage(prototypeMaps[i][m], s.columns, im.Height, im.Width))
		}
		sheet.Images = append(sheet.Images, row)
	}
	return sheet, nil
}
