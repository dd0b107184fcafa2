package study

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/semcon/semcon/analysis/stats"
	"github.com/semcon/semcon/figures"
)

// byImage reads the counts of each test image behind a record. There are none if the record names no file, or if the file cannot be read.
func (r Record) byImage() (counts stats.ByImage) {
	content, err := os.ReadFile(filepath.Join(r.Folder, filepath.FromSlash(r.Images)))
	if err != nil || json.Unmarshal(content, &counts) != nil {
		return nil
	}
	return counts
}

// Images returns the interval over test images of a quantity, the mean over its seeds: a bootstrap in whose draws an image counts as often for each row and seed. It knows
// nothing of other seeds. N is 0 for details and for several columns, and unless all records of the rows have counts of as many images.
func (r Results) Images(q figures.Quantity) stats.Interval {
	drawn, counts, images := Results{runs: map[[2]string][]Record{}}, map[[2]string][]stats.ByImage{}, 0
	for _, row := range slices.Concat(strings.Split(q.Row, " < "), strings.Split(q.MinusRow, " & ")) {
		key := [2]string{row, q.Column}
		drawn.runs[key] = slices.Clone(r.runs[key])
		for _, record := range r.runs[key] {
			of := record.byImage()
			if images == 0 {
				images = len(of)
			}
			if of == nil || len(of) != images || q.MinusColumn+q.Detail != "" {
				return stats.Interval{}
			}
			counts[key] = append(counts[key], of)
		}
	}
	mean := func(weights []int) (sum float64) {
		for key, all := range counts {
			for i, of := range all {
				drawn.runs[key][i].Value = of.Score(weights)
			}
		}
		count := 0.0
		for _, seed := range drawn.seeds(strings.Split(q.Row, " < ")[0], q.Column) {
			if value, ok := drawn.quantity(q, q.Column, seed); ok {
				sum, count = sum+value, count+1
			}
		}
		return sum / max(count, 1)
	}
	if len(drawn.Quantity(q)) == 0 || images == 0 {
		return stats.Interval{}
	}
	return stats.ImageInterval(images, mean)
}
