package theory

import (
	"fmt"

	"github.com/semcon/semcon/analysis/theory"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/methods"
	"github.com/semcon/semcon/sccore/recipe/augmentation"
	"github.com/semcon/semcon/sccore/study"
)

// theoryColumns are the columns of the tables: the error, its bounds from the tightest on, then the quantities behind them.
var theoryColumns = []struct{ title, name string }{
	{"true error", "error"}, {"theorem 3", "geometric"}, {"theorem 1", "moments"}, {"theorem 2", "repaired"}, {"printed", "printed"},
	{"views alike", "view_similarity"}, {"class alike", "class_similarity"}, {"κ", "across"},
	{"mean p", "p_mean"}, {"mean q", "q_mean"}, {"ΣΔ", "sum_delta"}, {"ΣΔ too small", "sum_delta_fails"},
}

// detail is the name of a quantity on one kind of views among the details of records.
func detail(views, quantity string) string {
	return views + "." + theory.PrincipalForm + "." + quantity
}

// tables returns one table per method and dataset, with the theorem's quantities for each row of Tab. effect_aug_full.
func tables(r study.Results) (tables []figures.Table) {
	shown := study.Table{
		Unit: "%", RowHeads: figures.MustPaper("effect_aug_full").RowHeads, Least: 1,
		Caption: "Error of the nearest class mean and what bounds it, in %; 100 says nothing. Centred backbone features of the views that the " +
			"encoder was trained with, cut to K dimensions. Bounds: theorems 3 (geometric), 1 (moments) and 2 (thresholds) of docs/theory.md, and the " +
			"printed theorem, which erratum E14 refutes. Then 100 × the mean similarity of views of one image, of images of one class, κ, the mean " +
			"tails p at δ_T = 0.9 and q at d_T = 0.5, the left side of lemma sum_delta as a share of its right side (mean over views), and the share " +
			"of views at which it is smaller, contrary to the lemma.",
	}
	for _, row := range augmentation.Rows {
		shown.Rows = append(shown.Rows, study.Row{Key: string(row), Heads: row.Heads()})
	}
	for _, dataset := range augmentation.Datasets(r) {
		for _, method := range methods.Names {
			shown.Title, shown.Columns = augmentation.Column(dataset, method), nil
			for _, c := range theoryColumns {
				shown.Columns = append(shown.Columns, study.Column{Head: c.title, From: []string{shown.Title}, Detail: detail(OwnViews, c.name), Factor: 100})
			}
			if t := shown.Of(r); len(t.Rows) > 0 {
				tables = append(tables, t)
			}
		}
	}
	return tables
}

// Ladder plots the true error and its bounds on a dataset, for each row and method.
func Ladder(r study.Results, dataset string) figures.Chart {
	figure := figures.Chart{Title: fmt.Sprintf("%s, %s profile, K principal axes of centred features", dataset, r.Profile), Shared: true}
	for _, method := range methods.Names {
		column := augmentation.Column(dataset, method)
		panel := figures.Curves{Title: augmentation.Title(method), Y: "error rate, or bound on it", Points: true, Levels: []float64{0, 1}, Shift: 0.12}
		for _, row := range augmentation.Rows {
			if r.Recorded(string(row), column) {
				panel.Names = append(panel.Names, string(row))
			}
		}
		for i, rung := range theoryColumns[:5] {
			series := figures.Series{Name: rung.title, Hollow: i > 0}
			for place, row := range panel.Names {
				series.X, series.Values = append(series.X, float64(place)), append(series.Values, r.Details(row, column, detail(OwnViews, rung.name)))
			}
			panel.Series = append(panel.Series, series)
		}
		if len(panel.Names) > 0 {
			figure.Panels = append(figure.Panels, panel)
		}
	}
	return figure
}

// Concentration plots an encoder's error on a dataset against the mean similarity of its features, for views of one image and for images of one class:
// a series per row, with a point per method and seed. [CommonViews] compares encoders on the same views, with which only the first row was trained;
// [OwnViews] measures each encoder on the views that it was trained with.
func Concentration(r study.Results, dataset, views string) (plots figures.CurvesRow) {
	for _, x := range []struct{ name, title string }{
		{"view_similarity", "mean similarity of views of an image"}, {"class_similarity", "mean similarity of images of a class"},
	} {
		plot := figures.Curves{X: x.title, Y: "nearest-mean error", Points: true}
		for _, row := range augmentation.Rows {
			series := figures.Series{Name: "trained with " + string(row)}
			for _, method := range methods.Names {
				column := augmentation.Column(dataset, method)
				series.X = append(series.X, r.Details(string(row), column, detail(views, x.name))...)
				series.Y = append(series.Y, r.Details(string(row), column, detail(views, "error"))...)
			}
			if len(series.X) > 0 {
				plot.Series = append(plot.Series, series)
			}
		}
		plots = append(plots, plot)
	}
	return plots
}

// Tails plots p_T against δ_T and q_T against d_T for the encoders of one method and seed, a curve per row. It shows means over images, because the
// suprema over a thousand images are near 1 for all encoders.
func Tails(r study.Results, out, dataset, method string, seed int) (figures.CurvesRow, error) {
	views := figures.Curves{X: "δ_T", Y: "mean over images of p at δ_T"}
	class := figures.Curves{X: "d_T", Y: "mean over images of q at d_T"}
	for _, row := range augmentation.Rows {
		if record, ok := r.OfSeed(string(row), augmentation.Column(dataset, method), seed); ok {
			tails, err := theory.ReadTails(record.File(out, record.Curve), OwnViews, theory.PrincipalForm)
			if err != nil {
				return nil, err
			}
			views.Series = append(views.Series, figures.Series{Name: string(row), X: tails.Thresholds, Y: tails.MeanView})
			class.Series = append(class.Series, figures.Series{Name: string(row), X: tails.Thresholds, Y: tails.MeanClass})
		}
	}
	if len(views.Series) == 0 {
		return nil, fmt.Errorf("no record of %s, seed %d on %s in the %s profile", method, seed, dataset, r.Profile)
	}
	return figures.CurvesRow{views, class}, nil
}

// drawn draws the bounds, the concentration and the tails of encoders, for each dataset with records.
func drawn(r study.Results, from study.FigureSources, all *study.Drawn) {
	for _, dataset := range augmentation.Datasets(r) {
		all.Add(Ladder(r, dataset), nil, "The error of the nearest class mean and the bounds on it, for each method and row.", "ladder", dataset)
		for _, views := range []struct{ name, title string }{{CommonViews, "the views of the first row"}, {OwnViews, "the views that each encoder was trained with"}} {
			all.Add(Concentration(r, dataset, views.name), nil, "Error by the mean similarity of features, on "+views.title+". A point is an encoder.", "concentration", views.name, dataset)
		}
		if method, seed, ok := first(r, dataset); ok {
			tails, err := Tails(r, from.Out, dataset, method, seed)
			all.Add(tails, err, "Mean tails p and q by their thresholds, for the encoders of "+augmentation.Title(method)+".", "tails", dataset)
		}
	}
}

// first returns the first method of a dataset with records, and its lowest seed.
func first(r study.Results, dataset string) (method string, seed int, ok bool) {
	for _, method := range methods.Names {
		for _, row := range augmentation.Rows {
			if records := r.Of(string(row), augmentation.Column(dataset, method)); len(records) > 0 {
				return method, records[0].Seed, true
			}
		}
	}
	return "", 0, false
}
