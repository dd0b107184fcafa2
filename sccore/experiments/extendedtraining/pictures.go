package extendedtraining

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/recipe/maintable"
	"github.com/semcon/semcon/sccore/study"
	"gonum.org/v1/gonum/stat"
)

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
		before, err := readCurve(out, start)
		if err != nil {
			return nil, err
		}
		first, ok := before[len(before)-1].Evaluated[value]
		if !ok {
			continue
		}
		curve, err := readCurve(out, record)
		if err != nil {
			return nil, err
		}
		for _, p := range curve {
			if measured, ok := p.Evaluated[value]; ok {
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

func readCurve(out string, record study.Record) ([]anyPoint, error) {
	path := filepath.Join(study.Folder(out, Name), filepath.FromSlash(record.Curve))
	curve, err := study.ReadCurve[anyPoint](path)
	if err == nil && len(curve) == 0 {
		err = fmt.Errorf("%s: no points", path)
	}
	return curve, err
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
