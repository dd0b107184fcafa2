package study

import (
	"math"
	"slices"
	"testing"

	"github.com/semcon/semcon/figures"
)

// TestTables makes tables of made-up records: values, details and differences, beside the paper's numbers and alone.
func TestTables(t *testing.T) {
	var records []Record
	for i, row := range []string{"SimSiam", "a", "b", "file"} {
		for seed := range 2 {
			config := EncodeConfig(map[string]any{"Steps": 3, "encoder": map[string]string{"architecture": map[string]string{"b": "vit-small"}[row], "digest": map[string]string{"file": "01"}[row]}})
			records = append(records, Record{
				Experiment: "toy", Line: len(records) + 1, Cell: "cell", Row: row, Column: "count", Seed: seed, Value: float64(10*i + seed), Profile: Quick, Config: config,
				Data: "numbers", Details: map[string]float64{"share": 0.5},
			})
		}
	}
	results, err := newToy().Results(records, Quick)
	if err != nil {
		t.Fatal(err)
	}
	heads := []figures.RowHead{{Name: "row"}, {Name: "arch"}}
	made := Table{
		Title: "numbers", Unit: "%", RowHeads: heads, Least: 1,
		Columns: []Column{{Head: "count"}, {Head: "share", From: []string{"count"}, Detail: "share", Factor: 100}, {Head: "none"}},
		Rows: []Row{
			{Key: "a", Heads: []string{"first"}}, {Key: "b", Heads: []string{"second", "its own", "too many"}}, {Key: "b", Heads: []string{"third"}}, {Key: "gone", Heads: []string{"gone"}},
			{Key: "a", Minus: "SimSiam", Heads: []string{"difference"}}, {Key: "b", Minus: "a", Heads: []string{"of other architectures"}},
		},
	}.Of(results)
	var shown [][]string
	for _, row := range made.Rows {
		shown = append(shown, row.Heads)
	}
	want := [][]string{{"first", ""}, {"second", "its own"}, {"third", "vit-small"}, {"difference", ""}}
	if !slices.EqualFunc(shown, want, slices.Equal) || !slices.Equal(made.Columns, []string{"count", "share", "none"}) || !slices.Equal(made.Data, []string{"numbers"}) {
		t.Fatalf("rows %q of %q, data %q", shown, made.Columns, made.Data)
	}
	first, difference := made.Rows[0].Cells, made.Rows[3].Cells
	if !slices.Equal(first[0].Ours, []float64{10, 11}) || !slices.Equal(first[1].Ours, []float64{50, 50}) || first[2].Ours != nil || !slices.Equal(first[0].Records, []string{"toy:3", "toy:4"}) {
		t.Errorf("values %+v", first)
	}
	if !slices.Equal(difference[0].Ours, []float64{10, 10}) || len(difference[0].Records) != 4 || !math.IsNaN(difference[0].Paper) {
		t.Errorf("differences %+v", difference)
	}
	if alike, unlike := results.Differences("count", "a", "SimSiam"), results.Differences("count", "b", "a"); len(alike) != 2 || len(unlike) > 0 {
		t.Errorf("differences %v, of other architectures %v", alike, unlike)
	}
	if fromFile := results.Differences("count", "file", "b"); !slices.Equal(fromFile, []float64{10, 10}) {
		t.Errorf("differences %v of an encoder from a file, whose architecture records do not name", fromFile)
	}

	paper := figures.MustPaper("ablation")
	beside := Table{Paper: paper.Name, Columns: []Column{{Head: paper.Columns[0], From: []string{"count"}}, {Head: paper.Columns[1], From: []string{"count"}, Apart: true}}}
	for _, row := range paper.Rows {
		beside.Rows = append(beside.Rows, Row{Heads: row.Heads})
	}
	beside.Rows[0].Key = "a"
	cells := beside.Of(results).Rows[0].Cells
	if cells[0].Paper != paper.Rows[0].Values[0] || !math.IsNaN(cells[1].Paper) || !slices.Equal(cells[0].Ours, []float64{10, 11}) {
		t.Errorf("beside the paper: %+v", cells)
	}
	if whole := (Table{Paper: paper.Name, Rows: beside.Rows}).Of(results); !slices.Equal(whole.Columns, paper.Columns) || len(whole.Rows) != len(paper.Rows) || !slices.Equal(whole.RowHeads, paper.RowHeads) {
		t.Errorf("the paper's shape: %+v", whole)
	}
}
