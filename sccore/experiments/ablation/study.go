// Package ablation studies the effect of each part of the method ("Ablation Studies"). Seven lines with parts of the method on or off train from the same
// checkpoint per seed, and four that the paper does not have, which vary the filter.
package ablation

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/recipe/maintable"
	"github.com/semcon/semcon/sccore/study"
)

// Name is the experiment's name.
const Name = "ablation"

// cellNames are the names of the cells besides the lines. Cells on real images have the dataset in front: line4/seed0, stage1/seed0, images/line4/seed0.
var cellNames = map[string]string{recipe.RowRandom: "random", recipe.RowAlignment: "stage1", recipe.RowInit: "init"}

// newCell returns the cell of a row, which is the number of a line or a row of the experiment pretrain.
func newCell(dataset, row string, seed int, config maintable.Config) study.Cell[maintable.Config] {
	cell := maintable.NewCell(dataset, seed, config, cmp.Or(cellNames[row], "line"+row))
	cell.Row = row
	return cell
}

// startOf is the row that the lines start from.
func startOf(c maintable.Config) string {
	return lo.Ternary(c.Init != "", recipe.RowInit, recipe.RowAlignment)
}

// The line with the filter, and its encoder read with the filter left out.
const (
	filteredRow = "7"
	beforeRow   = "7, before the filter"
)

// lineOf returns the line of a cell; ok is false for the other cells.
func lineOf(c study.Cell[maintable.Config]) (line sccore.Ablation, ok bool) {
	number, err := strconv.Atoi(c.Row)
	if err != nil {
		return line, false
	}
	return maintable.AllLines[number-1], true
}

// cells lists the cells of a call. The cells that others start from come first.
func cells(o study.Options, dataset string) (_ []study.Cell[maintable.Config], err error) {
	defer try.Handle(&err)
	config := maintable.ProfileConfig(o.Profile, dataset == recipe.Images)
	try.E(config.Configure(o, &config, dataset == recipe.Images))
	if second := config.Second; second.BlocksAfterFilter > 0 || second.Filter != "" {
		return nil, fmt.Errorf("second.blocks_after_filter %d, second.filter %q: the lines from 8 on vary the filter of line 7, want 0 and none", second.BlocksAfterFilter, second.Filter)
	}
	rows := []string{recipe.RowRandom, startOf(config)}
	for _, line := range slices.Backward(config.Lines()) { // The last lines take longest, so they start first.
		rows = append(rows, strconv.Itoa(line.Line))
	}
	seeds := study.Seeds(Name, o)
	try.E(study.CheckSeeds(seeds, config.Shares))
	return lo.FlatMap(rows, func(row string, _ int) []study.Cell[maintable.Config] {
		return lo.Times(seeds, func(seed int) study.Cell[maintable.Config] { return newCell(dataset, row, seed, config) })
	}), nil
}

// Study is the experiment.
var Study = training.Spec(maintable.Spec(study.Spec[maintable.Config, maintable.Data]{
	Name:  Name,
	Parts: []string{"dataset", "row", "seed"},
	Cells: cells,
	Open: func(o study.Options, _ string, cells []study.Cell[maintable.Config]) (maintable.Data, error) {
		return maintable.Open(o, cells[0].Config, cells[0].Seed)
	},
	Numbers: func(d maintable.Data, c study.Cell[maintable.Config]) []study.Number {
		numbers := recipe.NumbersOf(c.Row, d.Measures(c.Config))
		if c.Row == filteredRow {
			numbers = append(numbers, recipe.NumbersOf(beforeRow, d.Measures(c.Config))...)
		}
		return numbers
	},
	Needs: func(c study.Cell[maintable.Config]) []study.Cell[maintable.Config] { // The cell that a line starts from.
		if _, ok := lineOf(c); !ok {
			return nil
		}
		return []study.Cell[maintable.Config]{newCell(c.Dataset, startOf(c.Config), c.Seed, c.Config)}
	},
	Folder: func(d maintable.Data, c study.Cell[maintable.Config]) string { // The cells of a seed share a folder, whose name depends on the training but not on the evaluation.
		trained := recipe.Config{First: c.Config.First, Second: c.Config.Second, Images: c.Config.Images, Ignore: c.Config.Ignore}
		trained.Size = lo.Ternary(c.Dataset == recipe.Images, c.Config.Size, 0) // Neighbours are found at this size. Drawn images have the canvas's.
		name := lo.Ternary(c.Row == recipe.RowRandom, "random", stageOf(c).Name)
		return filepath.Join("cells", fmt.Sprintf("seed%d-%s", c.Seed, study.Hash(study.EncodeConfig(trained), []byte(d.Identity()))), name)
	},
	Ran: func(c study.Cell[maintable.Config]) (ran maintable.Config, derived bool) {
		ran = c.Config
		if _, derived = lineOf(c); derived {
			ran.Second = stageOf(c).Config
		}
		return ran, derived
	},
	Common: func(config, _ maintable.Config) maintable.Config {
		config.Init = "" // The data of a record identify the file.
		return config
	},
	ProfileConfig: func(r study.Record, config maintable.Config) maintable.Config {
		c := maintable.ProfileConfig(r.Profile, r.Kind == figures.Real)
		c.Init = recipe.UsualInit(r, config.Init)
		return c
	},
	Tables: study.ByKind(tables),
	Figures: func(results study.Results, _ study.FigureSources, all *study.Drawn) {
		for _, r := range results.Kinds() {
			images := lo.Ternary(r.Kind == figures.Real, []string{"images"}, nil)
			all.Add(Parts(r), nil, "What each part of the method adds, paired by seed, with 95 % intervals over seeds, beside the paper's numbers.", append([]string{"parts"}, images...)...)
			all.Add(TradeOff(r), nil, "The lines of the ablation by k-NN classification and linear segmentation, or recall over patches.", append([]string{"trade-off"}, images...)...)
		}
	},
	Random: recipe.RowRandom,
}))

// run is a running cell.
type run = study.Run[maintable.Config, maintable.Data]

// training is how cells train.
var training = recipe.Cells[maintable.Config, maintable.Data]{
	Stage:  stageOf,
	Base:   func(r *run) (recipe.Data, recipe.Config) { return r.Data.Data, r.Cell.Config.Config },
	Record: record,
}

// stageOf returns the stage of a cell: a line, or what all lines of a seed begin from, or random weights.
func stageOf(c study.Cell[maintable.Config]) recipe.Stage {
	config := c.Config
	s := recipe.Stage{Name: "first", Config: config.First, Neighbours: recipe.NeighboursFile}
	if line, ok := lineOf(c); ok {
		s = config.Stage(fmt.Sprintf("line%d", line.Line), line.Config(config.Second), filepath.Join("first", recipe.FinalFile))
		if s.Config.Lambdas.ImageConcentration > 0 {
			s.Neighbours = recipe.NeighboursFile
		}
	}
	switch c.Row {
	case recipe.RowRandom:
		s.Untrained, s.Neighbours = true, ""
	case recipe.RowInit: // This encoder has no filter, because the file has none.
		s = config.Stage("init", config.Control(), "")
		s.Neighbours, s.Untrained = recipe.NeighboursFile, true
	}
	return s
}

// record measures the online branch, and line 7 also with the filter left out, and records each column.
func record(r *run, t *recipe.Trainer) (err error) {
	defer try.Handle(&err)
	try.E(recordRow(r, r.Cell.Row, t.Frozen))
	if r.Cell.Row != filteredRow {
		return nil
	}
	before := try.E1(t.Extractor(false))
	defer before.Close()
	return recordRow(r, beforeRow, before)
}

func recordRow(r *run, row string, frozen *evaluation.FeatureExtractor) error {
	dir := lo.Ternary(stageOf(r.Cell).Untrained, "", r.Dir)
	numbers, err := recipe.Measured(r, row, dir, frozen, r.Data.Measures(r.Cell.Config))
	for _, n := range numbers {
		delete(n.Details, "within_classes") // The curve has them.
		delete(n.Details, "between_classes")
	}
	return cmp.Or(err, r.Record(numbers...))
}

// beyond are the rows that are not in the paper. The experiment's file has the head of each and what captions say of it, as a table of the row's name.
var beyond = []string{beforeRow, "8", "9", "10", "11"}

// compares reports whether the paper's numbers of a column compare with ours: not on synthetic images, nor on other classes than ImageNet-1k's.
func compares(r study.Results, column string) bool {
	return (r.Kind == figures.Real || r.Profile == study.Full) && !slices.ContainsFunc(r.Data(column), evaluation.OtherClasses)
}

// tables returns the paper's table with our numbers, and a table of what each part adds, paired by seed.
func tables(r study.Results) []figures.Table {
	from, other := "stage-1 checkpoint of its seed", recipe.RowInit // What the lines start from, and the row that has no records.
	if r.FromFile() {
		from, other = "weights", recipe.RowAlignment
	}
	title := "Tab. ablation"
	caption := "Measures of frozen features, each line trained from the same " + from + "."
	switch {
	case r.Kind == figures.Real:
		title += " on images"
		classification := lo.Ternary(compares(r, maintable.ColumnKNN), "Classification of ImageNet-1k.",
			"Classification of the images in imagenet/, with which the paper's numbers do not compare: they have another number of classes than ImageNet-1k.")
		for _, measured := range []struct{ column, what string }{
			{maintable.ColumnMIoU, "Segmentation of COCOStuff-27."}, {maintable.ColumnKNN, classification},
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
	paper := figures.MustPaper(Name)
	main := study.Table{Title: title, Unit: "%", Paper: Name}
	main.Columns = lo.FilterMap(slices.Concat(paper.Columns, recipe.RecallColumns), func(column string, _ int) (study.Column, bool) { // The paper has no columns of recall.
		return study.Column{Head: column, Apart: !compares(r, column)}, slices.Contains(paper.Columns, column) || slices.Contains(r.Columns(), column)
	})
	recorded := func(row string) bool { return r.Recorded(row, r.Columns()...) }
	for _, start := range []study.Row{{Key: recipe.RowRandom}, {Key: recipe.RowInit}, {Key: recipe.RowAlignment, Heads: []string{"1", "1"}}} {
		if recorded(start.Key) {
			main.Rows = append(main.Rows, study.Row{Key: start.Key, Heads: append([]string{start.Key}, start.Heads...)})
		}
	}
	main.Rows = append(main.Rows, lo.Map(paper.Rows, func(line figures.PaperRow, _ int) study.Row { return study.Row{Key: line.Heads[0], Heads: line.Heads} })...)
	for _, row := range beyond {
		if said := study.TableOf(Name, row); recorded(row) {
			main.Rows = append(main.Rows, study.Row{Key: row, Heads: []string{said.Title, "1", "1", "1", "1", "1"}})
			caption += " " + said.Caption
		}
	}
	main.Caption = caption
	differences := study.TableOf(Name, "differences")
	differences.Title, differences.Columns = title+", what each part adds", main.Columns
	differences.Rows = slices.DeleteFunc(differences.Rows, func(pair study.Row) bool {
		absent := func(row string) bool { return row == other || slices.Contains(beyond, row) && !recorded(row) }
		return absent(pair.Key) || absent(pair.Minus)
	})
	compared := differences.Of(r)
	for i, row := range differences.Rows {
		for j, column := range compared.Columns {
			if compares(r, column) {
				compared.Rows[i].Cells[j].Paper = printedOf(paper, column, row.Key) - printedOf(paper, column, row.Minus)
			}
		}
	}
	tables := []figures.Table{main.Of(r), compared}
	if slices.ContainsFunc(paper.Columns, func(column string) bool { return slices.Contains(r.Columns(), column) && !compares(r, column) }) {
		printed := study.Table{Title: "Tab. ablation, as printed", Caption: "The paper's numbers, on ImageNet-1k and COCOStuff-27.", Unit: "%", Paper: Name}
		printed.Rows = lo.Map(paper.Rows, func(line figures.PaperRow, _ int) study.Row { return study.Row{Heads: line.Heads} })
		tables = append(tables, printed.Of(r))
	}
	return tables
}

// printedOf returns the paper's number of a line; NaN for other rows.
func printedOf(paper *figures.PaperTable, column, line string) float64 {
	number, err := strconv.Atoi(line)
	if err != nil || number > len(sccore.Ablations) {
		return math.NaN()
	}
	return paper.Value(column, paper.Rows[number-1].Heads...)
}

// TradeOff plots the lines by their k-NN classification and linear segmentation, ours on the left, the paper's on the right. Recall over patches stands for
// segmentation without records. The scales differ; compare relative positions.
func TradeOff(r study.Results) figures.Chart {
	paper := figures.MustPaper(Name)
	dense, measure := denseOf(r)
	ours, printed := figures.Series{Bars: figures.Deviations}, figures.Series{Look: 2, Hollow: true}
	for _, line := range maintable.AllLines {
		name := strconv.Itoa(line.Line)
		if line.Line > 8 { // The controls of the filter lie where line 6 does, and would hide it.
			continue
		}
		// Only seeds with both numbers count, because the two are paired.
		var x, y []float64
		for _, record := range r.Of(name, maintable.ColumnKNN) {
			if other, ok := r.OfSeed(name, dense, record.Seed); ok {
				x, y = append(x, record.Value), append(y, other.Value)
			}
		}
		if slices.Contains(beyond, name) && len(x) == 0 {
			continue
		}
		ours.XValues, ours.Values, ours.Labels = append(ours.XValues, x), append(ours.Values, y), append(ours.Labels, name)
		printed.X, printed.Y = append(printed.X, printedOf(paper, maintable.ColumnKNN, name)), append(printed.Y, printedOf(paper, maintable.ColumnMIoU, name))
	}
	printed.Labels = ours.Labels
	f := figures.Chart{Title: fmt.Sprintf("The lines of the ablation between two tasks%s, %s profile", figures.OnImages[r.Kind], r.Profile)}
	for _, panel := range []figures.Curves{
		{Title: "ours, mean ± sd", Y: measure + " (%)", Series: []figures.Series{ours}}, {Title: "paper", Y: "linear segmentation, mIoU (%)", Series: []figures.Series{printed}},
	} {
		panel.X, panel.Points = "k-NN accuracy (%)", true
		f.Panels = append(f.Panels, panel)
	}
	return f
}

// denseOf returns the column of segmentation and its name. Recall over patches stands for segmentation without records.
func denseOf(r study.Results) (column, measure string) {
	if !slices.Contains(r.Columns(), maintable.ColumnMIoU) && slices.Contains(r.Columns(), recipe.ColumnRecall) {
		return recipe.ColumnRecall, "linear recall over patches"
	}
	return maintable.ColumnMIoU, "linear segmentation, mIoU"
}

// parts are the differences between lines that show what a part of the method adds.
var parts = []struct{ name, line, minus string }{
	{"patches", "3", "1"}, {"image conc.", "4", "1"}, {"CoTAP", "5", "2"}, {"both conc.", "6", "3"}, {"filter", "7", "6"}, {"all three", "7", "3"},
}

// Parts plots what each part of the method adds to segmentation and to k-NN classification, in points with 95 % intervals over seeds, and the paper's differences.
func Parts(r study.Results) figures.Curves {
	paper, names, lines := figures.MustPaper(Name), []string(nil), []string(nil)
	for _, part := range parts {
		names, lines = append(names, part.name), append(lines, part.line+" − "+part.minus)
	}
	f := figures.Curves{
		Title: fmt.Sprintf("What each part adds%s, %s profile", figures.OnImages[r.Kind], r.Profile),
		X:     "what is added: lines " + strings.Join(lines, ", "), Y: "difference (points)", Names: names, Points: true, Levels: []float64{0}, Shift: 0.12,
		Note: "filled: ours, mean and 95 % interval; hollow: the paper",
	}
	dense, measure := denseOf(r)
	for look, of := range []struct{ column, printed, measure string }{{dense, maintable.ColumnMIoU, measure}, {maintable.ColumnKNN, maintable.ColumnKNN, "k-NN classification"}} {
		ours := figures.Series{Name: of.measure, Bars: figures.Intervals, Look: look + 1}
		printed := figures.Series{Look: look + 1, Hollow: true}
		for i, part := range parts {
			if values := r.Differences(of.column, part.line, part.minus); len(values) > 0 {
				ours.X, ours.Values = append(ours.X, float64(i)), append(ours.Values, values)
			}
			printed.X = append(printed.X, float64(i))
			printed.Y = append(printed.Y, printedOf(paper, of.printed, part.line)-printedOf(paper, of.printed, part.minus))
		}
		f.Series = append(f.Series, ours, printed)
	}
	return f
}
