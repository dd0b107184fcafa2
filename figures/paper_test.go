package figures

import (
	"math"
	"slices"
	"testing"
)

func paper(t *testing.T, name string) *PaperTable {
	t.Helper()
	table, err := Paper(name)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestPaperReadsEveryTable(t *testing.T) {
	names := PaperNames()
	if !slices.Contains(names, "effect_aug") || slices.Contains(names, "claims") {
		t.Fatal(names)
	}
	for _, name := range names {
		table := paper(t, name)
		if len(table.RowHeads) == 0 || len(table.Columns) == 0 {
			t.Errorf("%s: %d row heads, %d columns", name, len(table.RowHeads), len(table.Columns))
		}
		for _, row := range table.Rows {
			found, ok := table.Row(row.Heads...)
			if !ok || &found.Values[0] != &row.Values[0] {
				t.Errorf("%s: row %q is not alone with its heads", name, row.Heads)
			}
			equal(t, len(row.Values), len(table.Columns))
		}
	}
}

func TestPaperAugmentationStudy(t *testing.T) {
	table := paper(t, "effect_aug_full")
	equal(t, len(table.Rows), 13)
	equal(t, len(table.Columns), 8)
	equal(t, len(table.RowHeads), 5)
	for _, head := range table.RowHeads {
		equal(t, head.Switch, true)
	}
	equal(t, table.Value("CIFAR-10/SimCLR", "1", "1", "1", "1", "1"), 89.8)
	equal(t, table.Value("CIFAR-100/SimSiam", "same", "1", "", "", ""), 6.4)
	for _, absent := range []float64{
		table.Value("CIFAR-100/SimSiam", "", "", "", "", ""), // a row that is not in the paper
		table.Value("MNIST/SimSiam", "1", "1", "1", "1", "1"),
	} {
		equal(t, math.IsNaN(absent), true)
	}
}

func TestPaperTellsWordsFromNumbers(t *testing.T) {
	ablation := paper(t, "ablation")
	equal(t, ablation.RowHeads[0], RowHead{Name: "no"})
	equal(t, ablation.RowHeads[5], RowHead{Name: "oaf", Switch: true})
	equal(t, ablation.Value("knn_Acc@1", "7", "1", "1", "1", "1", "1"), 78.0)

	main := paper(t, "main")
	if want := []RowHead{{Name: "method"}, {Name: "arch"}, {Name: "dataset"}}; !slices.Equal(main.RowHeads, want) {
		t.Error(main.RowHeads)
	}
	equal(t, math.IsNaN(main.Value("linear_seg_mIoU", "SwAV", "ViT-S/16", "IN-1k")), true) // an empty cell
}

func TestPaperRefuses(t *testing.T) {
	for _, name := range []string{"nowhere", "claims"} {
		_, err := Paper(name)
		if err == nil {
			t.Fatal(name)
		}
		contains(t, err.Error(), `no table "`+name+`" in the paper; there are ablation, effect_aug,`)
	}
	for text, want := range map[string]string{
		"a,b\n":            "want a header and at least one row, got 1 lines",
		"a,b\nx,1.5\ny,?":  `line 3, column "b": "?" is not a number`,
		"a,b\n1.5,x\n":     `column "b" names rows and comes after numbers`,
		"a,b\nx,1.5,2.5\n": "record on line 2: wrong number of fields",
	} {
		_, err := parsePaper("t", text)
		if err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

func TestPrintedNumbersStandBesideOurs(t *testing.T) {
	printed := paper(t, "effect_aug")
	table := Table{RowHeads: printed.RowHeads, Columns: []string{"CIFAR-10/MoCo"}}
	for i, want := range []float64{89.7, 53.6} {
		heads := printed.Rows[i].Heads
		cell := Cell{Paper: printed.Value("CIFAR-10/MoCo", heads...), Ours: [][]float64{{50, 52}, nil}[i]}
		if cell.Paper != want {
			t.Errorf("row %d: %v, want %v", i, cell.Paper, want)
		}
		table.Rows = append(table.Rows, Row{Heads: heads, Cells: []Cell{cell}})
	}
	contains(t, table.Markdown(), "89.7 / **51.0 ± 1.4** (−38.7)")
}
