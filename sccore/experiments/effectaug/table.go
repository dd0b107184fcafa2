package effectaug

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gomlx/compute"
	"github.com/samber/lo"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/figures/features"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/methods"
	"github.com/semcon/semcon/sccore/recipe/augmentation"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/views"
)

// printed lists the rows of one of the paper's tables. The excerpt has no column for the flip, which none of its rows uses.
func printed(table string) (rows []study.Row) {
	for _, row := range figures.MustPaper(table).Rows {
		heads := append(slices.Clone(row.Heads), "")[:5]
		i := slices.IndexFunc(augmentation.Rows, func(r augmentation.Row) bool { return slices.Equal(r.Heads(), heads) })
		rows = append(rows, study.Row{Key: string(augmentation.Rows[i]), Heads: row.Heads})
	}
	return rows
}

// tables returns the paper's full table, its excerpt in the main text, and one table for each dataset that the paper does not have.
func tables(r study.Results) (tables []figures.Table) {
	const full, excerpt = "effect_aug_full", "effect_aug"
	paper := figures.MustPaper(full)
	shown := []study.Table{{Title: "Tab. " + full, Paper: full, Rows: printed(full)}, {Title: "Tab. " + excerpt, Paper: excerpt, Rows: printed(excerpt)}}
	for _, dataset := range augmentation.Datasets(r) {
		t := study.Table{Title: fmt.Sprintf("Tab. %s on %s, which the paper does not have", full, dataset), RowHeads: paper.RowHeads, Rows: printed(full)}
		t.Columns = study.Columns(lo.Map(methods.Names, func(method string, _ int) string { return augmentation.Column(dataset, method) })...)
		if !slices.Contains(paper.Columns, t.Columns[0].Head) {
			shown = append(shown, t)
		}
	}
	for _, t := range shown {
		t.Caption, t.Unit = "k-NN accuracy of frozen features under different transformations.", "%"
		made := t.Of(r)
		addUntrained(r, &made)
		if slices.ContainsFunc(made.Columns, func(column string) bool {
			return slices.ContainsFunc(r.Changed(column), func(setting string) bool { return strings.HasPrefix(setting, "validation=") })
		}) {
			made.Caption += " Numbers with validation are on held-out training images, not on test images."
		}
		tables = append(tables, made)
	}
	return tables
}

// addUntrained adds the row of encoders that have not been trained, if there are records of any. Such a row needs a head of its own: without a switch on,
// it would look like one without transformations.
func addUntrained(r study.Results, t *figures.Table) {
	if !r.Recorded(untrained, t.Columns...) {
		return
	}
	row := figures.Row{Heads: append([]string{untrained}, make([]string, len(t.RowHeads))...)}
	row.Cells = lo.Map(t.Columns, func(column string, _ int) figures.Cell { return r.Cell(untrained, column) })
	t.RowHeads = append([]figures.RowHead{{Name: "encoder"}}, t.RowHeads...)
	for i := range t.Rows {
		t.Rows[i].Heads = append([]string{"trained"}, t.Rows[i].Heads...)
	}
	t.Rows = append(t.Rows, row)
}

// printedOn is the dataset whose printed numbers stand beside ours on a dataset, and what the legend calls them. It is CIFAR-10 where the paper does not have ours.
func printedOn(dataset string) (other, name string) {
	if slices.Contains(figures.MustPaper("effect_aug_full").Columns, augmentation.Column(dataset, methods.SimCLR)) {
		return dataset, "paper"
	}
	return "CIFAR-10", "paper, on CIFAR-10"
}

// CropDrop plots the accuracy that each method loses on a dataset without different positions, ours beside the paper's.
func CropDrop(r study.Results, dataset string) figures.Curves {
	paper := figures.MustPaper("effect_aug_full")
	on, name := printedOn(dataset)
	figure := figures.Curves{Title: title(r, dataset), Y: "drop in k-NN accuracy (points)", Points: true, Levels: []float64{0}, Shift: 0.13}
	for i, lost := range []struct {
		name string
		row  augmentation.Row
	}{{"no crop", augmentation.NoCrop}, {"same crop", augmentation.SameCrop}} {
		ours := figures.Series{Name: lost.name + ": ours, mean ± sd", Bars: figures.Deviations, Look: i + 1}
		printed := figures.Series{Name: lost.name + ": " + name, Hollow: true, Grey: on != dataset, Look: i + 1}
		for place, method := range methods.Names {
			column := augmentation.Column(dataset, method)
			ours.X, ours.Values = append(ours.X, float64(place)), append(ours.Values, r.Differences(column, string(augmentation.AllCrops), string(lost.row)))
			column = augmentation.Column(on, method)
			printed.Y = append(printed.Y, paper.Value(column, augmentation.AllCrops.Heads()...)-paper.Value(column, lost.row.Heads()...))
		}
		printed.X = ours.X
		figure.Series = append(figure.Series, ours, printed)
	}
	figure.Names = lo.Map(methods.Names, func(method string, _ int) string { return augmentation.Title(method) })
	return figure
}

// Richness plots accuracy on a dataset against the number of transformations, ours beside the paper's.
func Richness(r study.Results, dataset string) figures.Chart {
	paper, figure := figures.MustPaper("effect_aug_full"), figures.Chart{Title: title(r, dataset), Shared: true}
	on, name := printedOn(dataset)
	for _, method := range methods.Names {
		column := augmentation.Column(dataset, method)
		ours, printed := figures.Series{Name: "ours, mean ± sd", Bars: figures.Deviations}, figures.Series{Name: name, Hollow: true, Grey: on != dataset}
		for _, row := range augmentation.Rows {
			if row.Has("crop") {
				ours.X, ours.Values = append(ours.X, float64(row.Transformations())), append(ours.Values, r.Values(string(row), column))
				printed.Y = append(printed.Y, paper.Value(augmentation.Column(on, method), row.Heads()...))
			}
		}
		printed.X = ours.X
		panel := figures.Curves{Title: augmentation.Title(method), X: "transformations", Y: "k-NN accuracy (%)", Series: []figures.Series{ours, printed}}
		figure.Panels = append(figure.Panels, panel)
	}
	return figure
}

func title(r study.Results, dataset string) string {
	return fmt.Sprintf("%s, %s profile", dataset, r.Profile)
}

// drawn draws what each method loses without crops, and what it gains by transformations, on each dataset with records.
func drawn(r study.Results, _ study.FigureSources, all *study.Drawn) {
	for _, dataset := range augmentation.Datasets(r) {
		all.Add(CropDrop(r, dataset), nil,
			"k-NN accuracy that each method loses when its views no longer show different positions of the image. Filled: ours; hollow: the paper's, grey on another dataset.", "crop-drop", dataset)
		all.Add(Richness(r, dataset), nil,
			"k-NN accuracy by the number of transformations, with independent crops. Filled: ours; hollow: the paper's, grey on another dataset.", "richness", dataset)
	}
}

// Curve reads the curve of a recorded run on the first dataset that has it. A missing record is an error that names the run.
func Curve(r study.Results, out, method string, row augmentation.Row, seed int) ([]study.Point, error) {
	for _, dataset := range augmentation.Datasets(r) {
		if record, ok := r.OfSeed(string(row), augmentation.Column(dataset, method), seed); ok {
			return study.ReadCurve[study.Point](filepath.Join(study.Folder(out, Name), filepath.FromSlash(record.Curve)))
		}
	}
	return nil, fmt.Errorf("no record of %s, row %s, seed %d in the %s profile", method, row, seed, r.Profile)
}

// Curves plots loss, k-NN accuracy and the effective rank of features, which shows collapse, against the epoch.
func Curves(points []study.Point) figures.CurvesRow {
	var loss, knn, rank []figures.Series
	for _, p := range points {
		figures.AddPoint(&loss, "loss", p.Epoch, p.Loss)
		if p.Evaluated {
			figures.AddPoint(&knn, "k-NN accuracy", p.Epoch, p.KNN)
			figures.AddPoint(&rank, "effective rank", p.Epoch, p.EffectiveRank)
		}
	}
	return figures.CurvesRow{
		{X: "epoch", Y: "loss", Series: loss}, {X: "epoch", Y: "k-NN accuracy (%)", Series: knn}, {X: "epoch", Y: "effective rank of features", Series: rank},
	}
}

// TrainingImages returns the training images of a profile's first dataset and of seed 0, given the folder of the datasets.
func TrainingImages(profile study.Profile, dir string) (*datasets.Images, error) {
	o := study.Options{Profile: profile, Data: dir}
	names, _, err := augmentation.DatasetNames(o)
	if err != nil {
		return nil, err
	}
	d, err := augmentation.Open(o, names[0], 1, 0)
	return d.Train, err
}

// Views draws one image and pairs of its views under each row of the table, as training sees them in the first epochs of the given seed.
func Views(b compute.Backend, images *datasets.Images, index, pairs int, seed uint64) (figures.ImageGrid, error) {
	var recipes []features.NamedRecipe
	for _, row := range augmentation.Rows {
		recipes = append(recipes, features.NamedRecipe{Name: strings.ReplaceAll(string(row), "+", " + "), Recipe: row.Recipe(views.Default())})
	}
	sheet, err := features.ViewPairs(b, images, index, pairs, seed, recipes)
	sheet.Title = fmt.Sprintf("%s, image %d: pairs of views under each row of the table", images.Name, index)
	return sheet, err
}
