package extendedtraining

import (
	"fmt"
	"math"
	"strings"

	"github.com/semcon/semcon/analysis/stats"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/experiments/ablation"
	"github.com/semcon/semcon/sccore/study"
)

// Results are the records of the experiment in one profile, on either real or synthetic images.
type Results struct {
	study.Results
	read bool
}

// Load reads the experiment's records under the folder out: those on real images if there are any, else those on synthetic ones.
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
			return []Results{{}}, err
		}
		if !subset.Empty() || !read && results == nil {
			results = append(results, Results{subset, read})
		}
	}
	return results, nil
}

// The columns of the paper's two figures that are measured here, without the baseline.
var (
	ofFigure     = []string{ablation.ColumnMIoU, ablation.ColumnLinear}
	ofFullFigure = []string{ablation.ColumnMIoU, ablation.ColumnAccuracy, ablation.ColumnLinear, ablation.ColumnKNN}
)

// differences are the rows of the paired table.
var differences = []struct{ title, row, other string }{
	{"the method − own loss on the same mixture (C24)", rowMethod, rowMixture},
	{"the method − own loss on objects", rowMethod, rowObjects},
	{"the method − own loss on scenes", rowMethod, rowScenes},
	{"the method − alignment alone", rowMethod, rowAlignment},
	{"alignment alone − own loss on the same mixture", rowAlignment, rowMixture},
	{"own loss on scenes − own loss on objects", rowScenes, rowObjects},
}

func tables(all study.Results) (tables []figures.Table, err error) {
	results, err := split(all)
	if err != nil {
		return nil, err
	}
	for _, r := range results {
		tables = append(tables, r.gains(), r.values(), r.differences())
	}
	return tables, nil
}

// columns are the columns of the given kinds for all baselines with records.
func (r Results) columns(kinds []string) (columns []string) {
	for _, baseline := range r.baselines() {
		for _, kind := range kinds {
			columns = append(columns, columnOf(baseline, kind))
		}
	}
	return columns
}

// table returns a table without rows.
func (r Results) table(title, caption, head string, kinds []string) figures.Table {
	switch {
	case r.read:
		title += " on images"
	case r.Profile != study.Full:
		title += ", ours on synthetic images"
	}
	t := figures.Table{Title: title, Caption: caption, RowHeads: []figures.RowHead{{Name: head}}, Columns: r.columns(kinds)}
	r.DescribeAs(&t, "%", t.Columns...)
	return t
}

const common = " All arms of a seed start from the same encoder and take the same number of steps and images; the method's target branch also sees one positive of " +
	"each object. The paper prints a figure without numbers."

// gains is the paper's figure as a table: what the arms gain over the initial model, paired by seed.
func (r Results) gains() figures.Table {
	t := r.table("Fig. longer_training", "Gain over the initial model, in points: linear segmentation and linear classification of frozen features."+common, "arm", ofFigure)
	for _, row := range rows[1:] {
		cells := figures.Row{Heads: []string{titles[row]}}
		for _, column := range t.Columns {
			cells.Cells = append(cells.Cells, r.Derived(r.Differences(column, row, rowStart), column, row, rowStart))
		}
		t.Rows = append(t.Rows, cells)
	}
	return t
}

// values is the table of the numbers themselves, of all columns.
func (r Results) values() figures.Table {
	t := r.table("Fig. longer_training_full", "Linear segmentation, linear classification and k-NN classification of frozen features."+common, "arm", ofFullFigure)
	for _, row := range rows {
		cells := figures.Row{Heads: []string{titles[row]}}
		for _, column := range t.Columns {
			cells.Cells = append(cells.Cells, r.Cell(row, column))
		}
		t.Rows = append(t.Rows, cells)
	}
	return t
}

// differences compares arms, paired by seed, with 95 % intervals for mIoU.
func (r Results) differences() figures.Table {
	t := r.table("Fig. longer_training, arms compared", "Differences of arms, paired by seed, with the 95 % interval of mIoU over seeds, each seed the mean of its baselines."+common, "difference", ofFigure)
	t.RowHeads = append(t.RowHeads, figures.RowHead{Name: "interval of mIoU"})
	for _, d := range differences {
		cells := figures.Row{Heads: []string{d.title, ""}}
		if interval := stats.MeanInterval(r.pooled(ablation.ColumnMIoU, d.row, d.other)); !math.IsNaN(interval.Low) {
			cells.Heads[1] = strings.ReplaceAll(fmt.Sprintf("%+.1f to %+.1f", interval.Low, interval.High), "-", "−")
		}
		for _, column := range t.Columns {
			cells.Cells = append(cells.Cells, r.Derived(r.Differences(column, d.row, d.other), column, d.row, d.other))
		}
		t.Rows = append(t.Rows, cells)
	}
	return t
}

// pooled are the differences of two rows, one value for each seed with all baselines: their mean.
func (r Results) pooled(column, row, other string) (differences []float64) {
	baselines := r.baselines()
	if len(baselines) == 0 {
		return nil
	}
seeds:
	for _, record := range r.Of(row, columnOf(baselines[0], column)) {
		sum := 0.0
		for _, baseline := range baselines {
			value, ok := r.OfSeed(row, columnOf(baseline, column), record.Seed)
			before, also := r.OfSeed(other, columnOf(baseline, column), record.Seed)
			if !ok || !also {
				continue seeds
			}
			sum += value.Value - before.Value
		}
		differences = append(differences, sum/float64(len(baselines)))
	}
	return differences
}
