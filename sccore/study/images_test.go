package study

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/semcon/semcon/analysis/stats"
	"github.com/semcon/semcon/figures"
)

// TestIntervalsOverImages: a difference of rows has an interval over test images if each record has the counts of them, paired by image and seed.
func TestIntervalsOverImages(t *testing.T) {
	const images = 200
	dir := t.TempDir()
	write := func(row string, seed int, right func(image int) bool) Record {
		counts := make(stats.ByImage, images)
		for i := range counts {
			counts.Add(i, i%3, right(i))
		}
		content, err := json.Marshal(counts)
		if err != nil {
			t.Fatal(err)
		}
		name := row + string(rune('0'+seed)) + ".json"
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
		return Record{Row: row, Column: "recall", Seed: seed, Value: counts.Score(nil), Images: name, Folder: dir, Profile: Real, Data: "images"}
	}
	var grouped []groupedRecord
	for seed := range 3 {
		for _, r := range []Record{
			write("start", seed, func(i int) bool { return i%2 == 0 }),
			write("block", seed, func(i int) bool { return i%2 == 0 || i%8 == 1 }),
			write("filter", seed, func(i int) bool { return i%2 == 0 || i%(5+seed) == 1 }),
		} {
			grouped = append(grouped, groupedRecord{Record: r})
		}
	}
	results := resultsOf(Real, grouped)
	q := figures.Quantity{Column: "recall", Row: "filter", MinusRow: "start"}
	got := results.Images(q)
	mean := 0.0
	for _, value := range results.Differences("recall", "filter", "start") {
		mean += value / 3
	}
	if got.N != images || math.Abs(got.Mean-mean) > 1e-9 || !(0 < got.Low && got.Low < mean && mean < got.High && got.High < mean+6) {
		t.Errorf("%+v around %g", got, mean)
	}
	alone := results.Images(figures.Quantity{Column: "recall", Row: "filter"})
	if alone.High-alone.Low < 1.5*(got.High-got.Low) {
		t.Errorf("the interval of a row, %+v, is hardly wider than that of a paired difference, %+v", alone, got)
	}
	if itself := results.Images(figures.Quantity{Column: "recall", Row: "filter", MinusRow: "filter"}); itself.N != images || itself.Low != 0 || itself.High != 0 {
		t.Errorf("a row minus itself: %+v", itself)
	}
	// The better of two is the block in each draw.
	if best := results.Images(figures.Quantity{Column: "recall", Row: "filter", MinusRow: "start & block"}); best.High >= got.High || best.Mean != results.Images(figures.Quantity{Column: "recall", Row: "filter", MinusRow: "block"}).Mean {
		t.Errorf("%+v minus the better of two", best)
	}
	table := Table{Title: "differences", Columns: Columns("", "recall"), RowHeads: []figures.RowHead{{Name: "difference"}}, Rows: []Row{{Key: "filter", Minus: "start", Heads: []string{"filter − start"}}}}.Of(results)
	if text := table.Text(); table.Rows[0].Cells[0].Images != got || !strings.Contains(text, " [") || !strings.Contains(text, "interval over test images") {
		t.Errorf("%+v, %s", table.Rows[0].Cells[0], text)
	}
	if e := results.Evidence("", figures.Claim{Quantity: q})[0]; e.Images != got {
		t.Errorf("a claim has %+v, want %+v", e.Images, got)
	}
	for what, q := range map[string]figures.Quantity{
		"columns": {Column: "recall & recall", Row: "filter"}, "a column": {Column: "recall", Row: "filter", MinusColumn: "recall"}, "a detail": {Column: "recall", Row: "filter", Detail: "loss"},
		"no records": {Column: "recall", Row: "other"}, "no other records": {Column: "recall", Row: "filter", MinusRow: "other"},
	} {
		if got := results.Images(q); got.N != 0 {
			t.Errorf("%s: %+v", what, got)
		}
	}
	if err := os.Remove(filepath.Join(dir, "start1.json")); err != nil {
		t.Fatal(err)
	}
	if got := results.Images(q); got.N != 0 {
		t.Errorf("without one file: %+v", got)
	}
}
