package study

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/semcon/semcon/figures"
)

func TestDrawnKeepsWhatCanBeDrawn(t *testing.T) {
	var all Drawn
	all.Add(nil, errors.New("curve.jsonl: truncated"), "", "curves")
	all.Add(figures.Curves{X: "step"}, nil, "It goes on.", "Trade-off", "synthetic scenes")
	drawn, err := all.figures, errors.Join(all.errs...)
	if len(drawn) != 1 || drawn[0].Name != "trade-off-synthetic-scenes" || drawn[0].Caption != "It goes on." {
		t.Errorf("drawn %+v", drawn)
	}
	if err == nil || err.Error() != "figure curves: curve.jsonl: truncated" {
		t.Errorf("error %v", err)
	}
}

func TestCellsNameTheirRecords(t *testing.T) {
	var r Results
	r.runs = map[[2]string][]Record{
		{"a", "column"}: {{Experiment: "study", Row: "a", Seed: 0, Value: 3, Line: 1}, {Experiment: "study", Row: "a", Seed: 1, Value: 4, Line: 7}},
		{"b", "column"}: {{Experiment: "study", Row: "b", Seed: 1, Value: 1, Line: 9}},
	}
	for _, test := range []struct {
		cell   figures.Cell
		values []float64
		places string
	}{
		{r.Cell("a", "column"), []float64{3, 4}, "study:1 study:7"},
		{r.Derived(r.Differences("column", "a", "b"), "column", "a", "b"), []float64{3}, "study:1 study:7 study:9"},
		{r.Derived(r.Differences("column", "b", "c"), "column", "b", "c"), nil, ""},
	} {
		if places := strings.Join(test.cell.Records, " "); !slices.Equal(test.cell.Ours, test.values) || places != test.places || test.cell.Paper == test.cell.Paper {
			t.Errorf("%+v, want %v of %s", test.cell, test.values, test.places)
		}
	}
}
