package theory

import (
	"fmt"
	"path/filepath"

	"github.com/semcon/semcon/analysis/theory"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/experiments/effectaug"
	"github.com/semcon/semcon/sccore/methods"
	"github.com/semcon/semcon/sccore/study"
)

// Results are the records of the experiment in one profile, with the rows, columns and seeds of the augmentation study.
type Results struct{ study.Results }

// Load reads the experiment's records under the folder out.
func Load(out string, profile study.Profile) (Results, error) {
	results, err := Study.Load(out, profile)
	return Results{results}, err
}

// Datasets returns the titles of the datasets with records, the paper's first.
func (r Results) Datasets() []string { return effectaug.Results{Results: r.Results}.Datasets() }

// detail returns a quantity times factor, one value per seed.
func (r Results) detail(row, column, name string, factor float64) []float64 {
	values := r.Details(row, column, name)
	for i := range values {
		values[i] *= factor
	}
	return values
}

// theoryColumns are the columns of the tables: the error, its bounds from the tightest on, then the quantities behind them.
var theoryColumns = []struct {
	title, name string
}{
	{"true error", "error"}, {"theorem 3", "geometric"}, {"theorem 1", "moments"}, {"theorem 2", "repaired"}, {"printed", "printed"},
	{"views alike", "view_similarity"}, {"class alike", "class_similarity"}, {"κ", "across"},
	{"mean p", "p_mean"}, {"mean q", "q_mean"}, {"ΣΔ", "sum_delta"}, {"ΣΔ too small", "sum_delta_fails"},
}

// tables returns one table per method and dataset, with the theorem's quantities for each row of Tab. effect_aug_full.
func (r Results) tables() (tables []figures.Table) {
	shown := study.Table{
		Unit: "%", RowHeads: figures.MustPaper("effect_aug_full").RowHeads, Least: 1,
		Caption: "Error of the nearest class mean and what bounds it, in %; 100 says nothing. Centred backbone features of the views that the " +
			"encoder was trained with, cut to K dimensions. Bounds: theorems 3 (geometric), 1 (moments) and 2 (thresholds) of docs/theory.md, and the " +
			"printed theorem, which erratum E14 refutes. Then 100 × the mean similarity of views of one image, of images of one class, κ, the mean " +
			"tails p at δ_T = 0.9 and q at d_T = 0.5, the left side of lemma sum_delta as a share of its right side (mean over views), and the share " +
			"of views at which it is smaller, contrary to the lemma.",
	}
	for _, row := range effectaug.Rows {
		shown.Rows = append(shown.Rows, study.Row{Key: row.Name, Heads: row.Heads()})
	}
	for _, dataset := range r.Datasets() {
		for _, method := range methods.Names {
			shown.Title, shown.Columns = dataset+"/"+effectaug.MethodTitles[method], nil
			for _, c := range theoryColumns {
				shown.Columns = append(shown.Columns, study.Column{Head: c.title, From: []string{shown.Title}, Detail: OwnViews + "." + theory.PrincipalForm + "." + c.name, Factor: 100})
			}
			if t := shown.Of(r.Results); len(t.Rows) > 0 {
				tables = append(tables, t)
			}
		}
	}
	return tables
}

// Ladder plots the true error and its bounds on a dataset, for each row and method.
func (r Results) Ladder(dataset string) figures.DotPlot {
	figure := figures.DotPlot{Title: fmt.Sprintf("%s, %s profile", dataset, r.Profile) + ", K principal axes of centred features", Y: "error rate, or bound on it"}
	for _, rung := range theoryColumns[:5] {
		figure.Series = append(figure.Series, rung.title)
	}
	for _, method := range methods.Names {
		panel := figures.DotPanel{Title: effectaug.MethodTitles[method]}
		for _, row := range effectaug.Rows {
			if len(r.Of(row.Name, dataset+"/"+effectaug.MethodTitles[method])) == 0 {
				continue
			}
			panel.Rows = append(panel.Rows, row.Name)
			var rungs [][]float64
			for _, rung := range theoryColumns[:5] {
				rungs = append(rungs, r.detail(row.Name, dataset+"/"+effectaug.MethodTitles[method], OwnViews+"."+theory.PrincipalForm+"."+rung.name, 1))
			}
			panel.Values = append(panel.Values, rungs)
		}
		if len(panel.Rows) > 0 {
			figure.Panels = append(figure.Panels, panel)
		}
	}
	return figure
}

// Concentration plots an encoder's error on a dataset against the mean similarity of its features, for views of one image and for images of one class:
// a series per row, with a point per method and seed. [CommonViews] compares encoders on the same views, with which only the first row was trained;
// [OwnViews] measures each encoder on the views that it was trained with.
func (r Results) Concentration(dataset, views string) figures.CurvesRow {
	var row figures.CurvesRow
	for _, x := range []struct{ name, title string }{
		{"view_similarity", "mean similarity of views of an image"}, {"class_similarity", "mean similarity of images of a class"},
	} {
		plot := figures.Curves{X: x.title, Y: "nearest-mean error", Points: true}
		for _, trained := range effectaug.Rows {
			series := figures.Series{Name: "trained with " + trained.Name}
			for _, method := range methods.Names {
				column := dataset + "/" + effectaug.MethodTitles[method]
				series.X = append(series.X, r.detail(trained.Name, column, views+"."+theory.PrincipalForm+"."+x.name, 1)...)
				series.Y = append(series.Y, r.detail(trained.Name, column, views+"."+theory.PrincipalForm+".error", 1)...)
			}
			if len(series.X) > 0 {
				plot.Series = append(plot.Series, series)
			}
		}
		row = append(row, plot)
	}
	return row
}

// Tails plots p_T against δ_T and q_T against d_T for the encoders of one method and seed, a curve per row. It shows means over images, because the
// suprema over a thousand images are near 1 for all encoders.
func (r Results) Tails(out, dataset, method string, seed int) (figures.CurvesRow, error) {
	views := figures.Curves{X: "δ_T", Y: "mean over images of p at δ_T"}
	class := figures.Curves{X: "d_T", Y: "mean over images of q at d_T"}
	for _, row := range effectaug.Rows {
		if record, ok := r.OfSeed(row.Name, dataset+"/"+method, seed); ok {
			tails, err := theory.ReadTails(filepath.Join(study.Folder(out, Name), filepath.FromSlash(record.Curve)), OwnViews, theory.PrincipalForm)
			if err != nil {
				return nil, err
			}
			views.Series = append(views.Series, figures.Series{Name: row.Name, X: tails.Thresholds, Y: tails.MeanView})
			class.Series = append(class.Series, figures.Series{Name: row.Name, X: tails.Thresholds, Y: tails.MeanClass})
		}
	}
	if len(views.Series) == 0 {
		return nil, fmt.Errorf("no record of %s, seed %d on %s in the %s profile", method, seed, dataset, r.Profile)
	}
	return figures.CurvesRow{views, class}, nil
}

// drawn draws the bounds, the concentration and the tails of encoders, for each dataset with records.
func drawn(results study.Results, from study.FigureSources, all *study.Drawn) {
	r := Results{results}
	for _, dataset := range r.Datasets() {
		all.Add(r.Ladder(dataset), nil, "The error of the nearest class mean and the bounds on it, for each method and row.", "ladder", dataset)
		for _, views := range []struct{ name, title string }{{CommonViews, "the views of the first row"}, {OwnViews, "the views that each encoder was trained with"}} {
			all.Add(r.Concentration(dataset, views.name), nil, "Error by the mean similarity of features, on "+views.title+". A point is an encoder.", "concentration", views.name, dataset)
		}
		if method, seed, ok := r.first(dataset); ok {
			tails, err := r.Tails(from.Out, dataset, method, seed)
			all.Add(tails, err, "Mean tails p and q by their thresholds, for the encoders of "+method+".", "tails", dataset)
		}
	}
}

// first returns the first method of a dataset with records, and its lowest seed.
func (r Results) first(dataset string) (method string, seed int, ok bool) {
	for _, name := range methods.Names {
		for _, row := range effectaug.Rows {
			if records := r.Of(row.Name, dataset+"/"+effectaug.MethodTitles[name]); len(records) > 0 {
				return effectaug.MethodTitles[name], records[0].Seed, true
			}
		}
	}
	return "", 0, false
}
