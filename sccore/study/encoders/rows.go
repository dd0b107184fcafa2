package encoders

import (
	"fmt"
	"slices"
	"strings"

	"github.com/semcon/semcon/analysis/stats"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/study"
)

// Row is a row of a table that compares frozen encoders: one of the paper's, whose weights come from a file, or one of ours.
type Row struct {
	Key   string   // Its name in cell names and in --set weights.KEY=FILE.
	Heads []string // The table's row heads: method, architecture and, in some tables, training data. Our rows have the method alone.
}

// Keys of the rows that the paper's tables do not have: random weights, the file that the experiment pretrain started from, if there is one, and the encoders
// that it leaves after its two stages and after the control of the second, alignment for as many steps.
const (
	Random  = "random"
	Init    = "init"
	First   = "first"
	Control = "control"
	Second  = "second"
)

// titles are the titles of our rows in tables.
var titles = map[string]string{
	Random: recipe.RowRandom, Init: recipe.RowInit, First: recipe.RowAlignment, Control: recipe.RowControl, Second: recipe.RowMethod,
}

// Title is the title of a row in tables and pictures. For the paper's rows it is the key.
func Title(key string) string {
	if title := titles[key]; title != "" {
		return title
	}
	return key
}

// OurRows returns the rows that the paper's tables do not have.
func OurRows() (rows []Row) {
	for _, key := range []string{Random, Init, First, Control, Second} {
		rows = append(rows, Row{key, []string{titles[key]}})
	}
	return rows
}

// PaperRows returns the rows of one of the paper's tables that accept weights, which are those of vision transformers: "dino-s16" for DINO,
// "dino+ours-s16" for DINO + Ours. Tables that do not name the architecture use ViT-S/16 (appendix, "Network architecture").
func PaperRows(table string) (rows []Row) {
	printed := figures.MustPaper(table)
	for _, row := range printed.Rows {
		architecture := "ViT-S/16"
		if len(printed.RowHeads) > 1 && printed.RowHeads[1].Name == "arch" {
			architecture = row.Heads[1]
		}
		if size, ok := strings.CutPrefix(architecture, "ViT-"); ok {
			key := strings.ReplaceAll(row.Heads[0], " ", "") + "-" + strings.ReplaceAll(size, "/", "")
			rows = append(rows, Row{strings.ToLower(key), row.Heads})
		}
	}
	return rows
}

// WithRecords returns the rows that have records in at least one of the columns.
func WithRecords(results study.Results, rows []Row, columns ...string) []Row {
	return slices.DeleteFunc(slices.Clone(rows), func(row Row) bool {
		return !results.Recorded(row.Key, columns...)
	})
}

// AllRows returns our rows and those of one of the paper's tables, as far as they have records in at least one of the columns.
func AllRows(results study.Results, table string, columns ...string) []Row {
	return WithRecords(results, slices.Concat(OurRows(), PaperRows(table)), columns...)
}

// DrawnRows are the rows whose models figures show, as far as a column has records of them: random weights, and what the method has made, ours or a table's of the paper.
func DrawnRows(results study.Results, table, column string) []Row {
	return slices.DeleteFunc(AllRows(results, table, column), func(row Row) bool {
		return row.Key != Random && row.Key != Second && !strings.Contains(row.Key, "+ours")
	})
}

// DrawEach draws a figure of each of the rows of [DrawnRows] in each column: name and the column's, which labels says, name it. It needs a backend.
func DrawEach(
	results study.Results, from study.FigureSources, all *study.Drawn, table, name, caption string, columns []string, label func(column string) string,
	draw func(row, column, title string) (figures.Figure, error),
) {
	for _, column := range columns {
		if from.Backend == nil {
			break
		}
		for _, row := range DrawnRows(results, table, column) {
			title := Title(row.Key) + ", " + label(column)
			figure, err := draw(row.Key, column, title)
			all.Add(figure, err, strings.ReplaceAll(caption, "TITLE", title), name, strings.ReplaceAll(label(column), "/", "-"), row.Key)
		}
	}
}

// DrawPredictions draws what models of each of these rows make of test images, in each column with records.
func DrawPredictions(
	results study.Results, from study.FigureSources, all *study.Drawn, table string, predict func(row, column string) ([]figures.Segmented, []string, error),
) {
	DrawEach(results, from, all, table, "segmentation", "Test images, their classes, and what TITLE predicts.", results.Columns(),
		func(column string) string { return column }, func(row, column, title string) (figures.Figure, error) {
			predictions, classes, err := predict(row, column)
			return figures.SegmentationGrid(title, predictions, classes), err
		})
}

// ColumnsOf returns the columns that have records of at least one of the rows.
func ColumnsOf(results study.Results, rows []Row, columns ...string) []string {
	return slices.DeleteFunc(slices.Clone(columns), func(column string) bool { return len(WithRecords(results, rows, column)) == 0 })
}

// Gains is a table of what training is worth, in points, one difference per seed: the start, alignment and the full method over random weights, and the full method
// over the start and over its control, alignment for as many steps. Its caption has the intervals. Encoders of different architectures are not compared. Without two seeds of any pair
// it has no rows.
func Gains(results study.Results, title, measure string, columns ...string) figures.Table {
	t := study.Table{Title: title, Unit: "points", RowHeads: []figures.RowHead{{Name: "difference"}}, Columns: study.Columns(columns...), Least: 2}
	for _, pair := range [][2]string{{Init, Random}, {First, Random}, {Second, Random}, {Second, Init}, {Second, Control}} {
		t.Rows = append(t.Rows, study.Row{Key: pair[0], Minus: pair[1], Heads: []string{Title(pair[0]) + " − " + Title(pair[1])}})
	}
	made := t.Of(results)
	var intervals []string
	for _, row := range made.Rows {
		for i, cell := range row.Cells {
			if over := stats.MeanInterval(cell.Ours); over.N > 1 {
				numbers := strings.ReplaceAll(fmt.Sprintf("%.1f to %.1f", over.Low, over.High), "-", "−")
				intervals = append(intervals, fmt.Sprintf("%s, %s: %s", row.Heads[0], columns[i], numbers))
			}
		}
	}
	made.Caption = "Differences of " + measure + ", paired by seed; 95 % intervals: " + strings.Join(intervals, "; ") + "." + made.Caption
	return made
}
