package theory

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/methods"
)

// TheoryResults are the records of the theory experiment in one profile.
type TheoryResults struct {
	EffectAugResults // The same rows, columns and seeds.
}

// LoadTheory reads the experiment's records under the folder out.
func LoadTheory(out string, profile Profile) (TheoryResults, error) {
	records, err := Records(folderOf(out, Theory))
	if err != nil {
		return TheoryResults{}, err
	}
	return newTheoryResults(records, profile)
}

func newTheoryResults(records []Record, profile Profile) (TheoryResults, error) {
	results, err := newEffectAugResults(records, profile, theorySettings)
	return TheoryResults{results}, err
}

// theorySettings are the settings of a measurement; which encoder it was is the row's, the method's and the seed's.
func theorySettings(r Record) (settings, error) {
	var config TheoryConfig
	if err := r.configuration(&config); err != nil {
		return settings{}, err
	}
	config.Trained = ""
	own, err := theoryConfig(r.Profile, nil)
	if err != nil {
		return settings{}, err
	}
	changed, err := changedKeys("", own, config)
	return settings{config, r.Data, changed}, err
}

// detail has one value a seed of a quantity; factor scales it.
func (r TheoryResults) detail(row, column, name string, factor float64) []float64 {
	var values []float64
	for _, record := range r.runs[[2]string{row, column}] {
		if value, ok := record.Details[name]; ok {
			values = append(values, factor*value)
		}
	}
	return values
}

// theoryColumns are the columns of the tables, in the order of what they bound.
var theoryColumns = []struct {
	title, name string
}{
	{"true error", "error"}, {"theorem 3", "geometric"}, {"theorem 1", "moments"}, {"theorem 2", "repaired"}, {"printed", "printed"},
	{"views alike", "view_similarity"}, {"class alike", "class_similarity"}, {"κ", "across"},
	{"mean p", "p_mean"}, {"mean q", "q_mean"}, {"ΣΔ", "sum_delta"}, {"ΣΔ too small", "sum_delta_fails"},
}

// tables are one table a method and dataset: the theorem's quantities for each row of Tab. effect_aug_full.
func (r TheoryResults) tables() []figures.Table {
	var tables []figures.Table
	for _, dataset := range r.datasets {
		for _, method := range methods.Names {
			column := dataset + "/" + methodTitles[method]
			t := figures.Table{
				Title: column,
				Caption: "Error of the nearest class mean and what bounds it, in %; 100 says nothing. Centred backbone features of the views that the " +
					"encoder was trained with, cut to K dimensions. Bounds: theorems 3 (geometric), 1 (moments) and 2 (thresholds) of docs/theory.md, and the " +
					"printed theorem, which erratum E14 refutes. Then 100 × the mean similarity of views of one image, of images of one class, κ, the mean " +
					"tails p at δ_T = 0.9 and q at d_T = 0.5, the left side of lemma sum_delta as a share of its right side (mean over views), and the share " +
					"of views at which it is smaller, contrary to the lemma.",
				Unit: "%", Profile: string(r.profile), Data: r.dataOf(dataset),
			}
			full, err := figures.Paper("effect_aug_full")
			if err != nil {
				panic(err) // Embedded.
			}
			t.RowHeads = full.RowHeads
			for _, c := range theoryColumns {
				t.Columns = append(t.Columns, c.title)
			}
			for _, row := range EffectAugRows {
				line := figures.Row{Heads: row.Heads()}
				for _, c := range theoryColumns {
					ours := r.detail(row.Name, column, OwnViews+"."+formPrincipal+"."+c.name, 100)
					line.Cells = append(line.Cells, figures.Cell{Paper: math.NaN(), Ours: ours})
				}
				if slices.ContainsFunc(line.Cells, func(c figures.Cell) bool { return len(c.Ours) > 0 }) {
					t.Rows = append(t.Rows, line)
				}
			}
			if len(t.Rows) > 0 {
				tables = append(tables, t)
			}
		}
	}
	return tables
}

// Ladder is the figure of the true error and its bounds for each row and method, on a dataset.
func (r TheoryResults) Ladder(dataset string) figures.Ladder {
	figure := figures.Ladder{Title: r.title(dataset) + ", K principal axes of centred features", Y: "error rate, or bound on it"}
	for _, rung := range theoryColumns[:5] {
		figure.Series = append(figure.Series, rung.title)
	}
	for _, method := range methods.Names {
		panel := figures.LadderPanel{Title: methodTitles[method]}
		for _, row := range EffectAugRows {
			if len(r.runs[[2]string{row.Name, dataset + "/" + methodTitles[method]}]) == 0 {
				continue
			}
			panel.Rows = append(panel.Rows, row.Name)
			var rungs [][]float64
			for _, rung := range theoryColumns[:5] {
				rungs = append(rungs, r.detail(row.Name, dataset+"/"+methodTitles[method], OwnViews+"."+formPrincipal+"."+rung.name, 1))
			}
			panel.Values = append(panel.Values, rungs)
		}
		if len(panel.Rows) > 0 {
			figure.Panels = append(figure.Panels, panel)
		}
	}
	return figure
}

// Concentration is the figure of how alike an encoder's features are for views of one image and for images of one class, against its error, on a
// dataset: a series for each row, with a point for each method and seed. On [CommonViews] encoders are compared on the same views, which are
// those that the encoders of the first row alone were trained with; on [OwnViews] each is shown what it knows.
func (r TheoryResults) Concentration(dataset, views string) figures.CurvesRow {
	var row figures.CurvesRow
	for _, x := range []struct{ name, title string }{
		{"view_similarity", "mean similarity of views of an image"}, {"class_similarity", "mean similarity of images of a class"},
	} {
		plot := figures.Curves{X: x.title, Y: "nearest-mean error", Points: true}
		for _, trained := range EffectAugRows {
			series := figures.Series{Name: "trained with " + trained.Name}
			for _, method := range methods.Names {
				column := dataset + "/" + methodTitles[method]
				series.X = append(series.X, r.detail(trained.Name, column, views+"."+formPrincipal+"."+x.name, 1)...)
				series.Y = append(series.Y, r.detail(trained.Name, column, views+"."+formPrincipal+".error", 1)...)
			}
			if len(series.X) > 0 {
				plot.Series = append(plot.Series, series)
			}
		}
		row = append(row, plot)
	}
	return row
}

// Tails is the figure of p_T against δ_T and q_T against d_T of the encoders of one method and seed, a curve for each row: means over images, as the
// suprema over a thousand images are near 1 for all.
func (r TheoryResults) Tails(out, dataset, method string, seed int) (figures.CurvesRow, error) {
	views := figures.Curves{X: "δ_T", Y: "mean over images of p at δ_T"}
	class := figures.Curves{X: "d_T", Y: "mean over images of q at d_T"}
	for _, row := range EffectAugRows {
		for _, record := range r.runs[[2]string{row.Name, dataset + "/" + method}] {
			if record.Seed != seed {
				continue
			}
			tails, err := readTails(filepath.Join(folderOf(out, Theory), filepath.FromSlash(record.Curve)), OwnViews, formPrincipal)
			if err != nil {
				return nil, err
			}
			views.Series = append(views.Series, figures.Series{Name: row.Name, X: tails.Thresholds, Y: tails.MeanView})
			class.Series = append(class.Series, figures.Series{Name: row.Name, X: tails.Thresholds, Y: tails.MeanClass})
		}
	}
	if len(views.Series) == 0 {
		return nil, fmt.Errorf("no measured encoder of %s, seed %d on %s in the %s profile", method, seed, dataset, r.profile)
	}
	return figures.CurvesRow{views, class}, nil
}
