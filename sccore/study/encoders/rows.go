package encoders

import (
	"cmp"
	"fmt"
	"image/color"
	"slices"
	"strings"

	"github.com/gomlx/compute"
	"github.com/samber/lo"
	"github.com/semcon/semcon/analysis/stats"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/study"
)

// Keys of the rows that the paper's tables do not have: random weights, the file that the experiment pretrain started from, if there is one, and the encoders
// that it leaves after its two stages and after the control of the second, alignment for as many steps. Keys are in cell names.
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
	return cmp.Or(titles[key], key)
}

// OurRows returns the rows with records that the paper's tables do not have, and the rows of weights under the user's own names, which the given table of the
// paper does not have. Their heads are the method alone.
func OurRows(results study.Results, table string) []study.Row {
	keys, printed := []string{Random, Init, First, Control, Second}, PaperRows(table)
	keys = append(keys, lo.Filter(results.Rows(), func(key string, _ int) bool {
		return titles[key] == "" && !slices.ContainsFunc(printed, func(row study.Row) bool { return row.Key == key })
	})...)
	return lo.Map(keys, func(key string, _ int) study.Row { return study.Row{Key: key, Heads: []string{Title(key)}} })
}

// PaperRows returns the rows of one of the paper's tables. Rows of vision transformers have keys, by which --set weights.KEY=FILE gives them weights:
// "dino-s16" for DINO, "dino+ours-s16" for DINO + Ours. Tables that do not name the architecture use ViT-S/16 (appendix, "Network architecture").
func PaperRows(table string) (rows []study.Row) {
	printed := figures.MustPaper(table)
	for _, row := range printed.Rows {
		made, architecture := study.Row{Heads: row.Heads}, "ViT-S/16"
		if len(printed.RowHeads) > 1 && printed.RowHeads[1].Name == "arch" {
			architecture = row.Heads[1]
		}
		if size, ok := strings.CutPrefix(architecture, "ViT-"); ok {
			made.Key = strings.ToLower(strings.ReplaceAll(row.Heads[0], " ", "") + "-" + strings.ReplaceAll(size, "/", ""))
		}
		rows = append(rows, made)
	}
	return rows
}

// WithRecords returns the rows that have records in at least one of the columns.
func WithRecords(results study.Results, rows []study.Row, columns ...string) []study.Row {
	return slices.DeleteFunc(slices.Clone(rows), func(row study.Row) bool { return !results.Recorded(row.Key, columns...) })
}

// AllRows returns our rows and the rows of one of the paper's tables, as far as they have records in at least one of the columns.
func AllRows(results study.Results, table string, columns ...string) []study.Row {
	return WithRecords(results, append(OurRows(results, table), PaperRows(table)...), columns...)
}

// ColumnsOf returns the columns that have records of at least one of the rows.
func ColumnsOf(results study.Results, rows []study.Row, columns ...string) []string {
	return slices.DeleteFunc(slices.Clone(columns), func(column string) bool { return len(WithRecords(results, rows, column)) == 0 })
}

// Beside returns one of the paper's tables, with our numbers in % beside the printed ones. Its caption names the rows that have printed numbers alone.
func Beside(label, caption string, columns ...study.Column) study.Table {
	var alone []string
	for _, row := range PaperRows(label) {
		if name := row.Heads[min(1, len(row.Heads)-1)]; row.Key == "" && !slices.Contains(alone, name) {
			alone = append(alone, name)
		} else if row.Heads[0] == "STEGO" {
			alone = append(alone, "STEGO, a head on DINO's encoder,")
		}
	}
	if len(alone) > 0 {
		caption += " Rows of " + strings.Join(alone, " and ") + " have only printed numbers, because weights are read for vision transformers alone."
	}
	return study.Table{Title: "Tab. " + label, Caption: caption, Unit: "%", Paper: label, Rows: PaperRows(label), Columns: columns}
}

// Alone returns a table of numbers in % that the paper does not have. Its rows show the method and the architecture.
func Alone(title, caption string, rows []study.Row, columns ...study.Column) study.Table {
	return study.Table{Title: title, Caption: caption, Unit: "%", RowHeads: []figures.RowHead{{Name: "method"}, {Name: "arch"}}, Rows: rows, Columns: columns}
}

// BothBegin is what captions say of the full method and its control.
const BothBegin = " The full method and its control, alignment alone for the same number of steps, start from the row \"alignment\", or from the initialisation if one is given."

// Details returns columns that show details of the records in the columns from. The detail named value is the value of the records.
func Details(from []string, value string, details ...string) []study.Column {
	return lo.Map(details, func(head string, _ int) study.Column {
		return study.Column{Head: head, From: from, Detail: lo.Ternary(head == value, "", head)}
	})
}

// Plain returns the tables of an experiment that the paper has no table of: one, of the values of all rows and columns with records. paper is the table whose rows
// weights can be given for. The caption gets what the paper lacks.
func Plain(paper, title, caption string) func(study.Results) []figures.Table {
	return func(results study.Results) []figures.Table {
		rows := AllRows(results, paper, results.Columns()...)
		return []figures.Table{Alone(title, caption+" The paper has no such table.", rows, study.Columns("", results.Columns()...)...).Of(results)}
	}
}

// DrawEach draws a figure of rows in each column, as far as there are records: of random weights, and of what the method has made, ours or of a table of the paper.
// name and the column's, which label says, name it. It needs a backend.
func DrawEach(
	results study.Results, from study.FigureSources, all *study.Drawn, table, name, caption string, columns []string, label func(column string) string,
	draw func(row, column, title string) (figures.Figure, error),
) {
	for _, column := range columns {
		for _, row := range AllRows(results, table, column) {
			if from.Backend == nil || row.Key != Random && row.Key != Second && !strings.Contains(row.Key, "+ours") {
				continue
			}
			title := Title(row.Key) + ", " + label(column)
			figure, err := draw(row.Key, column, title)
			all.Add(figure, err, strings.ReplaceAll(caption, "TITLE", title), name, strings.ReplaceAll(label(column), "/", "-"), row.Key)
		}
	}
}

// drawnImages is the number of images in a figure of predictions.
const drawnImages = 6

// Predictions segments n evenly spread test images with what a cell has left: the one of the lowest seed in a row ("random", "second", "dino-s16") and a column. It also
// returns the names of the classes. A row and column without records is an error.
type Predictions func(r study.Results, b compute.Backend, data, out, row, column string, n int) ([]figures.Segmented, []string, error)

// Colours are the colours of a dataset's classes in figures; nil for drawn images, whose classes have the colours of every figure.
func Colours(dataset string, images *datasets.Segmentation) color.Palette {
	if Drawn(dataset) {
		return nil
	}
	return images.Colours()
}

// Drawn returns the figures of an experiment that segments: what models of rows, ours or of a table of the paper, make of test images, in each column with records, and all of a
// column but random weights beside each other, as Fig. vis_seg has DINO, Leopart and the method, and the second half of Fig. over-disp alignment and CoTAP. They need a backend.
func (predict Predictions) Drawn(table string) func(study.Results, study.FigureSources, *study.Drawn) {
	return func(results study.Results, from study.FigureSources, all *study.Drawn) {
		same := func(column string) string { return column }
		DrawEach(results, from, all, table, "segmentation", "Test images, their classes, and what TITLE predicts.", results.Columns(), same,
			func(row, column, title string) (figures.Figure, error) {
				predictions, classes, err := predict(results, from.Backend, from.Data, from.Out, row, column, drawnImages)
				return figures.SegmentationGrid(title, predictions, classes), err
			})
		for _, column := range results.Columns() {
			rows := slices.DeleteFunc(AllRows(results, table, column), func(row study.Row) bool { return row.Key == Random })
			if from.Backend == nil || len(rows) < 2 {
				continue
			}
			var keys, names, classes []string
			var models [][]figures.Segmented
			var failed error
			for _, row := range rows {
				predictions, of, err := predict(results, from.Backend, from.Data, from.Out, row.Key, column, drawnImages)
				keys, names, models, classes, failed = append(keys, row.Key), append(names, Title(row.Key)), append(models, predictions), of, cmp.Or(failed, err)
			}
			title := column
			if strings.HasSuffix(column, "/FCN") && slices.Contains(keys, "dino-s16") && slices.Contains(keys, "leopart-s16") && slices.Contains(keys, "dino+ours-s16") {
				title += " (Fig. vis_seg)"
			}
			var figure figures.ImageGrid
			if failed == nil {
				figure = figures.ComparedSegmentations(title, names, models, classes)
			}
			caption := "Test images of " + column + ", their classes, and what " + strings.Join(keys, ", ") + " predict" + strings.TrimPrefix(title, column) + "."
			all.Add(figure, failed, caption, "segmentation", strings.ReplaceAll(column, "/", "-"), "compared")
		}
	}
}

// ByPlace compares columns, "dataset/head", or datasets: by the places of the datasets, and then of the heads.
func ByPlace(datasets, heads []string) func(a, b string) int {
	place := func(column string) int {
		dataset, head, _ := strings.Cut(column, "/")
		return slices.Index(datasets, dataset)*len(heads) + slices.Index(heads, head)
	}
	return func(a, b string) int { return place(a) - place(b) }
}

// DatasetsOf returns the names of the datasets of columns, each once.
func DatasetsOf(columns []string) []string {
	return lo.Uniq(lo.Map(columns, func(column string, _ int) string { return strings.Split(column, "/")[0] }))
}

// Gains is a table of what training is worth, in points, one difference per seed: the start, alignment and the full method over random weights, and the full method
// over the start and over its control, alignment for as many steps. Its caption has the intervals. Encoders of different architectures are not compared. Without two seeds of any pair
// it has no rows.
func Gains(results study.Results, title, measure string, columns ...string) figures.Table {
	t := study.Table{Title: title, Unit: "points", RowHeads: []figures.RowHead{{Name: "difference"}}, Columns: study.Columns("", columns...), Least: 2}
	for _, pair := range [][2]string{{Init, Random}, {First, Random}, {Second, Random}, {Second, Init}, {Second, Control}} {
		t.Rows = append(t.Rows, study.Row{Key: pair[0], Minus: pair[1], Heads: []string{Title(pair[0]) + " − " + Title(pair[1])}})
	}
	made := t.Of(results)
	var intervals []string
	for _, row := range made.Rows {
		for i, cell := range row.Cells {
			if over := stats.MeanInterval(cell.Ours); over.N > 1 {
				intervals = append(intervals, fmt.Sprintf("%s, %s: %s", row.Heads[0], columns[i], over.Text("%.1f")))
			}
		}
	}
	made.Caption = "Differences of " + measure + ", paired by seed; 95 % intervals: " + strings.Join(intervals, "; ") + "." + made.Caption
	return made
}
