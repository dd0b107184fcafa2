package extendedtraining

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/analysis/stats"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/recipe"
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

// baselines lists the baselines with records, in the paper's order.
func baselines(r study.Results) []string {
	return lo.Filter(selfdistillation.Names, func(baseline string, _ int) bool { return len(recorded(r, baseline)) > 0 })
}

// recorded are the columns of a baseline with records.
func recorded(r study.Results, baseline string) []string {
	return lo.Filter(r.Columns(), func(column string, _ int) bool { return strings.HasPrefix(column, titles[baseline]+"/") })
}

// columns are the columns of the given kinds for all baselines with records.
func columns(r study.Results, kinds []string) []string {
	return lo.FlatMap(baselines(r), func(baseline string, _ int) []string {
		return lo.FilterMap(kinds, func(kind string, _ int) (string, bool) {
			column := columnOf(baseline, kind)
			return column, r.Profile != study.Real && slices.Contains(maintable.Columns, kind) || slices.Contains(r.Columns(), column)
		})
	})
}

// table returns a table as the file of the experiment has it. Only the full profile measures what the figure of a label shows.
func table(r study.Results, name, label string, kinds []string) study.Table {
	t, images := study.TableOf(Name, name), "; the method's target branch also sees one positive of each object"
	switch {
	case r.Profile == study.Real: // There is no image concentration.
		t.Title, images = t.Title+" on images", ""
		t.Caption = strings.NewReplacer("Linear segmentation", "Recall over patches of PASCAL VOC", "linear segmentation", "recall over patches of PASCAL VOC").Replace(t.Caption)
		t.Rows = lo.Reject(t.Rows, func(row study.Row, _ int) bool { return lacks(r.Profile, row.Key) || lacks(r.Profile, row.Minus) })
	case r.Profile == study.Full:
		t.Title = label + strings.TrimPrefix(t.Title, "Longer training")
		t.Caption += " As in the figure, FCN is the mIoU of an FCN on frozen features, and J&F that of masks propagated through videos."
	case r.Kind == figures.Real:
		t.Title += " on images"
	default:
		t.Title += ", ours on synthetic images"
	}
	t.Caption += " All continuations of a seed start from the same encoder and take the same number of steps and images" + images + ". The paper prints a figure without numbers."
	t.Columns = study.Columns("", columns(r, slices.Concat(kinds, recipe.RecallColumns))...)
	return t
}

// tables are the paper's figure as a table, which is what continuations gain over the initial model; the numbers themselves, of all columns; and the continuations compared, with 95 %
// intervals for mIoU. Differences are paired by seed.
func tables(r study.Results) []figures.Table {
	heads := ""
	for _, baseline := range baselines(r) {
		if records := r.Of(rowMixture, recorded(r, baseline)[0]); len(records) > 0 && strings.Contains(records[0].Protocol, newHeads) {
			heads += " The file of " + titles[baseline] + " is of an encoder, so that its own loss begins with new heads, centres and queues, which favours the method."
		} else if len(records) > 0 && baseline == selfdistillation.Mugs && r.Profile == study.Full {
			heads += " Mugs's queues and memories begin anew: its file has none."
		}
	}
	gains, values := table(r, "gains", "Fig. longer_training", ofFigure), table(r, "values", "Fig. longer_training_full", ofFullFigure)
	compared := table(r, "differences", "Fig. longer_training", ofFigure)
	by := strings.Join(columns(r, []string{lo.Ternary(r.Profile == study.Real, recipe.ColumnRecall, maintable.ColumnMIoU)}), " & ") // The mean over all baselines.
	for i, d := range compared.Rows {
		compared.Rows[i].Heads = append(d.Heads[:1:1], stats.MeanInterval(r.Quantity(figures.Quantity{Column: by, Row: d.Key, MinusRow: d.Minus})).Text("%+.1f"))
	}
	for _, t := range []*study.Table{&gains, &values, &compared} {
		t.Caption += heads
	}
	return []figures.Table{gains.Of(r), values.Of(r), compared.Of(r)}
}

// Curves plots what the evaluators measured along the continuations of a baseline, such as "dino", as gains over the initial model, means over seeds: of
// k-NN classification and of linear segmentation, or of the effective rank of patch features for images without labels. A baseline without curves is an error.
func Curves(r study.Results, out, baseline string) (all figures.CurvesRow, err error) {
	defer try.Handle(&err)
	for _, value := range []struct{ name, title string }{
		{"probe/miou", "gain in linear mIoU (points)"}, {"knn/accuracy", "gain in k-NN accuracy (points)"}, {"spread/rank", "gain in effective rank"},
	} {
		plot := figures.Curves{X: "step", Y: value.title}
		for _, row := range study.TableOf(Name, "gains").Rows {
			gains := try.E1(gainsAlong(r, out, baseline, row.Key, value.name))
			if len(gains) > 0 {
				figures.AddPoint(&plot.Series, row.Heads[0], 0, 0)
			}
			for _, step := range slices.Sorted(maps.Keys(gains)) {
				figures.AddPoint(&plot.Series, row.Heads[0], float64(step), stat.Mean(gains[step], nil))
			}
		}
		if len(plot.Series) > 0 {
			all = append(all, plot)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no curves of %s are recorded in the %s profile", titles[baseline], r.Profile)
	}
	all[0].Title = titles[baseline] + figures.OnImages[r.Kind]
	return all, nil
}

// gainsAlong are the gains of a row by step, one per seed.
func gainsAlong(r study.Results, out, baseline, row, value string) (gains map[int][]float64, err error) {
	defer try.Handle(&err)
	gains = map[int][]float64{}
	columns := recorded(r, baseline)
	for _, record := range r.Of(row, strings.Join(columns[:min(1, len(columns))], "")) { // All columns of a cell have its curve.
		start, ok := r.OfSeed(rowStart, record.Column, record.Seed)
		if !ok {
			continue
		}
		before := try.E1(study.ReadCurve[anyPoint](start.File(out, start.Curve)))
		if len(before) == 0 {
			return nil, fmt.Errorf("%s: no points", start.File(out, start.Curve))
		}
		first, ok := before[len(before)-1].Evaluated[value]
		for _, p := range try.E1(study.ReadCurve[anyPoint](record.File(out, record.Curve))) {
			if measured, has := p.Evaluated[value]; ok && has {
				gains[p.Step] = append(gains[p.Step], measured-first)
			}
		}
	}
	return gains, nil
}

// drawn draws what the continuations of each baseline gain, on real and on synthetic images.
func drawn(results study.Results, from study.FigureSources, all *study.Drawn) {
	for _, r := range results.Kinds() {
		for _, baseline := range baselines(r) {
			continued := func(row study.Row) bool { return r.Recorded(row.Key, recorded(r, baseline)...) }
			if !slices.ContainsFunc(study.TableOf(Name, "gains").Rows, continued) {
				continue // The start alone gains nothing.
			}
			name := []string{"gains", baseline}
			if r.Kind == figures.Real {
				name = append(name, "images")
			}
			curves, err := Curves(r, from.Out, baseline)
			all.Add(curves, err, "What longer training adds to "+titles[baseline]+", along training: gains over the initial model, means over seeds.", name...)
		}
	}
}

// anyPoint is what points of all curves have: the baselines' and the method's, which are sccore.StepMetrics.
type anyPoint struct {
	Step      int                `json:"step"`
	Total     float64            `json:"total"`
	Evaluated map[string]float64 `json:"evaluated"`
}
