package encoders

import (
	"slices"
	"strings"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/experiments/pretrain"
	"github.com/semcon/semcon/sccore/study"
)

// Row is a row of a table that compares frozen encoders: one of the paper's, whose weights come from a file, or one of ours.
type Row struct {
	Key   string   // In cell names and in --set weights.KEY=FILE.
	Heads []string // As the table has them: the method, the architecture and, where the table has it, the training data; of ours the method alone.
}

// Keys of the rows that no table of the paper has: random weights, and what the experiment pretrain leaves after its two stages.
const (
	Random = "random"
	First  = "first"
	Second = "second"
)

// titles are what tables call our rows.
var titles = map[string]string{Random: pretrain.RowRandom, First: pretrain.RowAlignment, Second: pretrain.RowMethod}

// Title is what tables and pictures call a row: its key, if it is one of the paper's.
func Title(key string) string {
	if title := titles[key]; title != "" {
		return title
	}
	return key
}

// OurRows are the rows that no table of the paper has.
func OurRows() (rows []Row) {
	for _, key := range []string{Random, First, Second} {
		rows = append(rows, Row{key, []string{titles[key]}})
	}
	return rows
}

// PaperRows are the rows of a table of the paper that weights can be given for, those of vision transformers: "dino-s16" for DINO, "dino+ours-s16" for
// DINO + Ours. A table that names no architecture is of ViT-S/16 (appendix, "Network architecture").
func PaperRows(table string) ([]Row, error) {
	printed, err := figures.Paper(table)
	if err != nil {
		return nil, err
	}
	var rows []Row
	for _, row := range printed.Rows {
		architecture := "ViT-S/16"
		if printed.RowHeads[1].Name == "arch" {
			architecture = row.Heads[1]
		}
		if size, ok := strings.CutPrefix(architecture, "ViT-"); ok {
			key := strings.ReplaceAll(row.Heads[0], " ", "") + "-" + strings.ReplaceAll(size, "/", "")
			rows = append(rows, Row{strings.ToLower(key), row.Heads})
		}
	}
	return rows, nil
}

// Gain is what the full method gains over its initialisation in a column, one value a seed. Claims name the initialisation "DINO", "iBOT" or "Mugs", of
// ViT-S/16, or "own" for our own training.
func Gain(results study.Results, initialisation, column string) study.Evidence {
	method, before := Second, First
	if initialisation != "own" {
		before = strings.ToLower(initialisation) + "-s16"
		method = strings.ToLower(initialisation) + "+ours-s16"
	}
	return results.Evidence(results.Differences(column, method, before), column)
}

// WithRecords are those of the rows that have records in one of the columns.
func WithRecords(results study.Results, rows []Row, columns ...string) []Row {
	return slices.DeleteFunc(slices.Clone(rows), func(row Row) bool {
		return !slices.ContainsFunc(columns, func(column string) bool { return len(results.Of(row.Key, column)) > 0 })
	})
}

// ColumnsOf are those of the columns that have records of one of the rows.
func ColumnsOf(results study.Results, rows []Row, columns ...string) []string {
	return slices.DeleteFunc(slices.Clone(columns), func(column string) bool { return len(WithRecords(results, rows, column)) == 0 })
}
