package extendedtraining

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/semcon/semcon/analysis/stats"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/recipe/maintable"
	"github.com/semcon/semcon/sccore/selfdistillation"
	"github.com/semcon/semcon/sccore/study"
	"gonum.org/v1/gonum/stat"
)

// The columns of the paper's two figures, without the baseline. The first has an FCN's mIoU on Cityscapes and COCOStuff-27, J&F on DAVIS and linear classification; the linear mIoU
// stands beside them, which claim C24 is measured by.
var (
	ofFigure     = append([]string{maintable.ColumnMIoU, maintable.ColumnLinear}, maintable.DenseColumns[:3]...)
	ofFullFigure = append([]string{maintable.ColumnMIoU, maintable.ColumnAccuracy, maintable.ColumnLinear, maintable.ColumnKNN}, maintable.DenseColumns...)
)

// columns are the columns of the given kinds for all baselines with records.
func columns(r study.Results, kinds []string) (columns []string) {
	for _, baseline := range baselines(r) {
		for _, kind := range kinds {
			column := columnOf(baseline, kind)
			if slices.Contains(maintable.Columns, kind) || slices.Contains(r.Columns(), column) { // Others are of the full profile.
				columns = append(columns, column)
			}
		}
	}
	return columns
}

// table returns a table without rows. Only the full profile measures what the figure of a label shows.
func table(r study.Results, label, title, caption, head string, kinds []string) study.Table {
	switch {
	case r.Profile == study.Full:
		title = label + strings.TrimPrefix(title, "Longer training")
		caption += " As in the figure, FCN is the mIoU of an FCN on frozen features, and J&F that of masks propagated through videos."
	case r.Kind == figures.Real:
		title += " on images"
	default:
		title += ", ours on synthetic images"
	}
	return study.Table{Title: title, Caption: caption + common, Unit: "%", RowHeads: []figures.RowHead{{Name: head}}, Columns: study.Columns(columns(r, kinds)...)}
}

const common = " All arms of a seed start from the same encoder and take the same number of steps and images; the method's target branch also sees one positive of " +
	"each object. The paper prints a figure without numbers."

// tables are the paper's figure as a table, which is what the arms gain over the initial model; the numbers themselves, of all columns; and the arms compared, with 95 %
// intervals for mIoU. Differences are paired by seed.
func tables(r study.Results) []figures.Table {
	heads := ""
	for _, baseline := range baselines(r) {
		if records := r.Of(rowMixture, columnOf(baseline, anyColumn(r, baseline))); len(records) > 0 && strings.Contains(records[0].Protocol, newHeads) {
			heads += " The file of " + titles[baseline] + " is of an encoder, so that its own loss begins with new heads, centres and queues, which favours the method."
		} else if len(records) > 0 && baseline == selfdistillation.Mugs && r.Profile == study.Full {
			heads += " Mugs's queues and memories begin anew: its file has none."
		}
	}
	gains := table(r, "Fig. longer_training", "Longer training", "Gain over the initial model, in points: linear segmentation and linear classification of frozen features.", "arm", ofFigure)
	values := table(r, "Fig. longer_training_full", "Longer training, all measures", "Linear segmentation, linear classification and k-NN classification of frozen features.", "arm", ofFullFigure)
	compared := table(r, "Fig. longer_training", "Longer training, arms compared", "Differences of arms, paired by seed, with the 95 % interval of mIoU over seeds, each seed the mean of its baselines.", "difference", ofFigure)
	for i, row := range rows {
		if i > 0 {
			gains.Rows = append(gains.Rows, study.Row{Key: row, Minus: rowStart, Heads: []string{titles[row]}})
		}
		values.Rows = append(values.Rows, study.Row{Key: row, Heads: []string{titles[row]}})
	}
	compared.RowHeads = append(compared.RowHeads, figures.RowHead{Name: "interval of mIoU"})
	for _, d := range study.TableOf(Name, "differences").Rows {
		interval := stats.MeanInterval(pooled(r, maintable.ColumnMIoU, d.Key, d.Minus)).Text("%+.1f")
		compared.Rows = append(compared.Rows, study.Row{Key: d.Key, Minus: d.Minus, Heads: append(d.Heads[:1:1], interval)})
	}
	for _, t := range []*study.Table{&gains, &values, &compared} {
		t.Caption += heads
	}
	return []figures.Table{gains.Of(r), values.Of(r), compared.Of(r)}
}

// pooled are the differences of two rows, one value for each seed with all baselines: their mean.
func pooled(r study.Results, column, row, other string) []float64 {
	columns := columns(r, []string{column})
	if len(columns) == 0 {
		return nil
	}
	return r.Quantity(figures.Quantity{Column: strings.Join(columns, " & "), Row: row, MinusRow: other})
}

// Curves plots what the evaluators measured along the training of the arms of a baseline, such as "dino", as gains over the initial model, means over seeds:
// of k-NN classification and of linear segmentation, or of the effective rank of patch features for images without labels. A baseline without curves is an
// error.
func Curves(r study.Results, out, baseline string) (figures.CurvesRow, error) {
	var all figures.CurvesRow
	for _, value := range []struct{ name, title string }{
		{"probe/miou", "gain in linear mIoU (points)"}, {"knn/accuracy", "gain in k-NN accuracy (points)"}, {"spread/rank", "gain in effective rank"},
	} {
		plot := figures.Curves{X: "step", Y: value.title}
		for _, row := range rows[1:] {
			gains, err := gainsAlong(r, out, baseline, row, value.name)
			if err != nil {
				return nil, err
			}
			if len(gains) == 0 {
				continue
			}
			figures.AddPoint(&plot.Series, titles[row], 0, 0)
			for _, step := range slices.Sorted(maps.Keys(gains)) {
				figures.AddPoint(&plot.Series, titles[row], float64(step), stat.Mean(gains[step], nil))
			}
		}
		if len(plot.Series) > 0 {
			all = append(all, plot)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no curves of %s are recorded in the %s profile", titles[baseline], r.Profile)
	}
	all[0].Title = titles[baseline]
	return all, nil
}

// gainsAlong are the gains of a row by step, one per seed.
func gainsAlong(r study.Results, out, baseline, row, value string) (map[int][]float64, error) {
	gains := map[int][]float64{}
	for _, record := range r.Of(row, columnOf(baseline, anyColumn(r, baseline))) {
		start, ok := r.OfSeed(rowStart, record.Column, record.Seed)
		if !ok {
			continue
		}
		var curves [2][]anyPoint // Of the start and of the row.
		for i, of := range []study.Record{start, record} {
			path := filepath.Join(study.Folder(out, Name), filepath.FromSlash(of.Curve))
			points, err := study.ReadCurve[anyPoint](path)
			if err == nil && len(points) == 0 {
				err = fmt.Errorf("%s: no points", path)
			}
			if err != nil {
				return nil, err
			}
			curves[i] = points
		}
		first, ok := curves[0][len(curves[0])-1].Evaluated[value]
		for _, p := range curves[1] {
			if measured, has := p.Evaluated[value]; ok && has {
				gains[p.Step] = append(gains[p.Step], measured-first)
			}
		}
	}
	return gains, nil
}

// anyColumn is one of the kinds of columns that a baseline has.
func anyColumn(r study.Results, baseline string) string {
	for _, kind := range ofFullFigure {
		if slices.Contains(r.Columns(), columnOf(baseline, kind)) {
			return kind
		}
	}
	return maintable.ColumnMIoU
}

// drawn draws what the arms of each baseline gain along training, on real and on synthetic images.
func drawn(results study.Results, from study.FigureSources, all *study.Drawn) {
	for _, r := range results.Kinds() {
		for _, baseline := range baselines(r) {
			name := []string{"gains", baseline}
			if r.Kind == figures.Real {
				name = append(name, "images")
			}
			curves, err := Curves(r, from.Out, baseline)
			all.Add(curves, err, "What longer training adds to "+titles[baseline]+", by arm, along training: gains over the initial model, means over seeds.", name...)
		}
	}
}
