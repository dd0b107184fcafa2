package ablation

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/experiments/mainresults"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/study"
)

// Results are the records of the ablation in one profile, on either real or synthetic images. A row is the number of a line, or what the lines start
// from; the columns are those of the paper's table.
type Results struct {
	study.Results
	read bool
}

// Load reads the ablation's records under the folder out: those on real images if there are any, else those on synthetic ones.
func Load(out string, profile study.Profile) (Results, error) {
	all, err := Study.Load(out, profile)
	if err != nil {
		return Results{}, err
	}
	both, err := split(all)
	return both[0], err
}

// split separates the results on real images from those on synthetic ones. It drops empty results but returns at least one.
func split(all study.Results) (results []Results, err error) {
	for _, read := range []bool{true, false} {
		subset, err := all.Where(func(r study.Record) bool { return (r.Kind == figures.Real) == read })
		if err != nil {
			return nil, err
		}
		if !subset.Empty() || !read && results == nil {
			results = append(results, Results{subset, read})
		}
	}
	return results, nil
}

// tables returns the tables of real images and those of synthetic ones.
func tables(all study.Results) (tables []figures.Table, err error) {
	results, err := split(all)
	if err != nil {
		return nil, err
	}
	for _, r := range results {
		more, err := r.tables()
		if err != nil {
			return nil, err
		}
		tables = append(tables, more...)
	}
	return tables, nil
}

// earlierRow is the row of the line that the paper does not have.
var earlierRow = strconv.Itoa(sccore.FilterEarlier.Line)

// pairs are the rows of the paired table: what a line adds to another one.
var pairs = []struct{ Title, Row, Other string }{
	{"line 1 − line 2: image against patch alignment", "1", "2"},
	{"line 3 − line 1: + patch alignment", "3", "1"},
	{"line 4 − line 1: + image concentration", "4", "1"},
	{"line 5 − line 2: + patch concentration", "5", "2"},
	{"line 6 − line 3: + both concentrations", "6", "3"},
	{"line 7 − line 6: + filter", "7", "6"},
	{"line 7 − line 3: all of the method against both alignments", "7", "3"},
	{"line 8 − line 6: + filter before the last attention", "8", "6"},
	{"line 8 − line 7: the filter's place", "8", "7"},
	{"line 3 − stage 1: both alignments, trained on", "3", recipe.RowAlignment},
	{"line 7 − stage 1: all of stage 2", "7", recipe.RowAlignment},
	{"stage 1 − random weights", recipe.RowAlignment, recipe.RowRandom},
	{"initialisation − random weights", recipe.RowInit, recipe.RowRandom},
	{"line 3 − initialisation: both alignments, trained on", "3", recipe.RowInit},
	{"line 7 − initialisation: all of the method", "7", recipe.RowInit},
}

// fromWeights reports whether the lines start from a file of weights.
func (r Results) fromWeights() bool {
	for _, column := range slices.Concat(columns, recipe.RecallColumns) {
		for _, line := range allLines {
			for _, record := range r.Of(strconv.Itoa(line.Line), column) {
				var config Config
				if record.DecodeConfig(&config) == nil && config.Init != "" {
					return true
				}
			}
		}
	}
	return false
}

// compares reports whether the paper's numbers of a column compare with ours: not on synthetic images, nor on other classes than ImageNet-1k's.
func (r Results) compares(column string) bool {
	return (r.read || r.Profile == study.Full) && !slices.ContainsFunc(r.Data(column), mainresults.OtherClasses)
}

// tables returns the paper's table with our numbers, and a table of what each part adds, paired by seed.
func (r Results) tables() ([]figures.Table, error) {
	paper, err := figures.Paper(Name)
	if err != nil {
		return nil, err
	}
	from, other := "stage-1 checkpoint of its seed", recipe.RowInit // What the lines start from, and the row that has no records.
	if r.fromWeights() {
		from, other = "weights", recipe.RowAlignment
	}
	title := "Tab. ablation"
	caption := "Linear segmentation, linear classification and k-NN classification of frozen features, each line trained from the same " + from + "."
	switch {
	case r.read:
		title += " on images"
		classification := "Classification of ImageNet-1k."
		if !r.compares(ColumnKNN) {
			classification = "Classification of the images in imagenet/, with which the paper's numbers do not compare: they have another number of classes than ImageNet-1k."
		}
		for _, measured := range []struct{ column, what string }{
			{ColumnMIoU, "Segmentation of COCOStuff-27."}, {ColumnKNN, classification},
			{recipe.ColumnRecall, "Recall over patches of PASCAL VOC, every class counting the same."},
		} {
			if slices.Contains(r.Columns(), measured.column) {
				caption += " " + measured.what
			}
		}
	case r.Profile != study.Full:
		title += " on synthetic images"
		caption += " On synthetic objects and scenes, with which the paper's numbers do not compare."
	}
	// The paper has no columns of recall.
	more := slices.DeleteFunc(slices.Clone(recipe.RecallColumns), func(column string) bool { return !slices.Contains(r.Columns(), column) })
	shown := slices.Concat(paper.Columns, more)
	describe := func(t figures.Table, title, caption string) figures.Table {
		t.Title, t.Caption = title, caption
		r.DescribeAs(&t, "%", shown...)
		return t
	}
	main := paper.Beside(func(heads []string, column string) figures.Cell { return r.Cell(heads[0], column) })
	for i, line := range sccore.Ablations {
		for _, column := range more {
			main.Rows[i].Cells = append(main.Rows[i].Cells, r.Cell(strconv.Itoa(line.Line), column))
		}
	}
	main.Columns = shown
	earlier, hasEarlier := r.recordedRow(earlierRow, shown, earlierRow+": the filter before the last attention", "1", "1", "1", "1", "1")
	if hasEarlier {
		main.Rows = append(main.Rows, earlier)
		caption += " Line " + earlierRow + " is not in the paper: there [CLS] can see the filter."
	}
	main.Rows = append(r.starts(shown, len(main.RowHeads)), main.Rows...)
	for _, row := range main.Rows {
		for i := range row.Cells {
			if !r.compares(shown[i]) {
				row.Cells[i].Paper = math.NaN()
			}
		}
	}
	differences := figures.Table{RowHeads: []figures.RowHead{{Name: "difference"}}, Columns: shown}
	for _, pair := range pairs {
		if pair.Row == other || pair.Other == other || pair.Row == earlierRow && !hasEarlier {
			continue
		}
		row := figures.Row{Heads: []string{pair.Title}}
		for _, column := range shown {
			cell := r.Derived(r.Differences(column, pair.Row, pair.Other), column, pair.Row, pair.Other)
			if r.compares(column) && slices.Contains(paper.Columns, column) {
				cell.Paper = r.printed(paper, column, pair.Row) - r.printed(paper, column, pair.Other)
			}
			row.Cells = append(row.Cells, cell)
		}
		differences.Rows = append(differences.Rows, row)
	}
	return []figures.Table{
		describe(main, title, caption),
		describe(differences, title+", what each part adds", "Differences of the lines, paired by seed."),
	}, nil
}

// starts are the rows of what the lines start from, as far as they are recorded: random weights and the first stage, or weights from a file.
func (r Results) starts(columns []string, heads int) (rows []figures.Row) {
	for _, start := range []struct {
		row      string
		switches []string
	}{{recipe.RowRandom, nil}, {recipe.RowInit, nil}, {recipe.RowAlignment, []string{"1", "1"}}} {
		names := make([]string, heads)
		copy(names, append([]string{start.row}, start.switches...))
		if row, ok := r.recordedRow(start.row, columns, names...); ok {
			rows = append(rows, row)
		}
	}
	return rows
}

// recordedRow is the row of a table that the paper's does not have; ok is false if nothing of it is recorded.
func (r Results) recordedRow(name string, columns []string, heads ...string) (row figures.Row, ok bool) {
	row.Heads = heads
	for _, column := range columns {
		cell := r.Cell(name, column)
		ok = ok || len(cell.Ours) > 0
		row.Cells = append(row.Cells, cell)
	}
	return row, ok
}

// printed returns the paper's number of a line; NaN for other rows.
func (r Results) printed(paper *figures.PaperTable, column, line string) float64 {
	for i, a := range sccore.Ablations {
		if strconv.Itoa(a.Line) == line {
			return paper.Value(column, paper.Rows[i].Heads...)
		}
	}
	return math.NaN()
}

// TradeOff plots the lines by their k-NN classification and linear segmentation.
func (r Results) TradeOff() (figures.TradeOff, error) {
	paper, err := figures.Paper(Name)
	if err != nil {
		return figures.TradeOff{}, err
	}
	title := "The lines of the ablation between two tasks"
	if r.read {
		title += " on images"
	}
	f := figures.TradeOff{Title: fmt.Sprintf("%s, %s profile", title, r.Profile), X: "k-NN accuracy (%)", Y: "linear segmentation, mIoU (%)"}
	for _, line := range allLines {
		name := strconv.Itoa(line.Line)
		// Only seeds with both numbers count, because the two are paired.
		x, y := figures.Cell{Paper: r.printed(paper, ColumnKNN, name)}, figures.Cell{Paper: r.printed(paper, ColumnMIoU, name)}
		for _, record := range r.Of(name, ColumnKNN) {
			if miou, ok := r.OfSeed(name, ColumnMIoU, record.Seed); ok {
				x.Ours, y.Ours = append(x.Ours, record.Value), append(y.Ours, miou.Value)
			}
		}
		if name == earlierRow && len(x.Ours) == 0 {
			continue // The paper does not have it.
		}
		f.Lines = append(f.Lines, figures.TradeOffLine{Name: name, X: x, Y: y})
	}
	return f, nil
}
