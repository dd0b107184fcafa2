package study

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/semcon/semcon/analysis/stats"
	"github.com/semcon/semcon/figures"
)

// byImage reads the counts of each test image behind a record. There are none if the record names no file, or if the file is gone.
func (r Record) byImage() (counts stats.ByImage) {
	if r.Images == "" || r.Folder == "" {
		return nil
	}
	content, err := os.ReadFile(filepath.Join(r.Folder, filepath.FromSlash(r.Images)))
	if err != nil || json.Unmarshal(content, &counts) != nil {
		return nil
	}
	return counts
}

// Images returns the interval over test images of a quantity, the mean over its seeds: a bootstrap in whose draws an image counts as often for each row and seed. It knows
// nothing of other seeds. N is 0 for a quantity of more than a column or a difference of rows, and unless all of its records have the counts of as many images.
func (r Results) Images(q figures.Quantity) stats.Interval {
	if q.MinusColumn+q.Detail != "" || strings.ContainsAny(q.Column, "&+*|") || strings.ContainsAny(q.Row+q.MinusRow, "<|") {
		return stats.Interval{}
	}
	others := strings.Split(q.MinusRow, " & ")
	if q.MinusRow == "" {
		others = nil
	}
	var seeds [][]stats.ByImage // The row and what is subtracted, by seed.
	images := 0
	for _, seed := range r.seeds(q.Row, q.Column) {
		var rows []stats.ByImage
		for _, row := range append([]string{q.Row}, others...) {
			record, _ := r.OfSeed(row, q.Column, seed)
			counts := record.byImage()
			if images = max(images, len(counts)); counts == nil || len(counts) != images {
				return stats.Interval{}
			}
			rows = append(rows, counts)
		}
		seeds = append(seeds, rows)
	}
	if len(seeds) == 0 {
		return stats.Interval{}
	}
	return stats.ImageInterval(images, func(weights []int) (mean float64) {
		for _, rows := range seeds {
			best := math.Inf(-1)
			for _, other := range rows[1:] {
				best = max(best, other.Score(weights))
			}
			if others == nil {
				best = 0
			}
			mean += (rows[0].Score(weights) - best) / float64(len(seeds))
		}
		return mean
	})
}
