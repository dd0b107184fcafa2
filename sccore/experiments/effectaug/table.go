package effectaug

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/methods"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/views"
)

// Results are the records of the study in one profile.
type Results struct{ study.Results }

// Load reads the study's records under the folder out.
func Load(out string, profile study.Profile) (Results, error) {
	results, err := Study.Load(out, profile)
	return Results{results}, err
}

// rank orders datasets: the paper's two first, then others.
func rank(dataset string) int {
	if i := slices.Index([]string{"CIFAR-10", "CIFAR-100"}, dataset); i >= 0 {
		return i
	}
	return 2
}

// Datasets returns the titles of the datasets with records, the paper's first.
func (r Results) Datasets() (titles []string) {
	for _, column := range r.Columns() {
		if dataset, _, _ := strings.Cut(column, "/"); !slices.Contains(titles, dataset) {
			titles = append(titles, dataset)
		}
	}
	slices.SortStableFunc(titles, func(a, b string) int { return rank(a) - rank(b) })
	return titles
}

// printed lists the rows of one of the paper's tables. The excerpt has no column for the flip, which none of its rows uses.
func printed(table string) (rows []study.Row) {
	for _, row := range figures.MustPaper(table).Rows {
		heads := append(slices.Clone(row.Heads), "")[:5]
		i := slices.IndexFunc(Rows, func(r Row) bool { return slices.Equal(r.Heads(), heads) })
		rows = append(rows, study.Row{Key: Rows[i].Name, Heads: row.Heads})
	}
	return rows
}

// tables returns the paper's full table, its excerpt in the main text, and one table for each dataset that the paper does not have.
func (r Results) tables() (tables []figures.Table) {
	const full, excerpt = "effect_aug_full", "effect_aug"
	shown := []study.Table{{Title: "Tab. " + full, Paper: full, Rows: printed(full)}, {Title: "Tab. " + excerpt, Paper: excerpt, Rows: printed(excerpt)}}
	for _, dataset := range r.Datasets() {
		if rank(dataset) < 2 {
			continue
		}
		t := study.Table{Title: fmt.Sprintf("Tab. %s on %s, which the paper does not have", full, dataset), RowHeads: figures.MustPaper(full).RowHeads, Rows: printed(full)}
		for _, method := range methods.Names {
			t.Columns = append(t.Columns, study.Column{Head: dataset + "/" + MethodTitles[method]})
		}
		shown = append(shown, t)
	}
	for _, t := range shown {
		t.Caption, t.Unit = "k-NN accuracy of frozen features under different transformations.", "%"
		made := t.Of(r.Results)
		r.addUntrained(&made)
		if strings.Contains(made.Caption, "validation=") { // Among the changed settings.
			made.Caption += " Numbers with validation are on held-out training images, not on test images."
		}
		tables = append(tables, made)
	}
	return tables
}

// addUntrained adds the row of encoders that have not been trained, if there are records of any. Such a row needs a head of its own: without a switch on,
// it would look like one without transformations.
func (r Results) addUntrained(t *figures.Table) {
	untrained, recorded := figures.Row{Heads: append([]string{RowUntrained}, make([]string, len(t.RowHeads))...)}, false
	for _, column := range t.Columns {
		cell := r.Cell(RowUntrained, column)
		recorded = recorded || len(cell.Ours) > 0
		untrained.Cells = append(untrained.Cells, cell)
	}
	if !recorded {
		return
	}
	t.RowHeads = append([]figures.RowHead{{Name: "encoder"}}, t.RowHeads...)
	for i := range t.Rows {
		t.Rows[i].Heads = append([]string{"trained"}, t.Rows[i].Heads...)
	}
	t.Rows = append(t.Rows, untrained)
}

// CropDrop plots the accuracy that each method loses on a dataset without different positions, ours beside the paper's.
func (r Results) CropDrop(dataset string) (figures.AccuracyDrop, error) {
	paper, err := figures.Paper("effect_aug_full")
	if err != nil {
		return figures.AccuracyDrop{}, err
	}
	figure := figures.AccuracyDrop{Title: r.title(dataset)}
	for _, method := range methods.Names {
		column := dataset + "/" + MethodTitles[method]
		drop := func(row string) figures.Cell {
			return figures.Cell{
				Paper: paper.Value(column, headsOf(rowAll)...) - paper.Value(column, headsOf(row)...),
				Ours:  r.Differences(column, rowAll, row),
			}
		}
		figure.Methods = append(figure.Methods, figures.MethodDrop{Method: MethodTitles[method], Without: drop(rowNoCrop), Same: drop(rowSameCrop)})
	}
	return figure, nil
}

// Richness plots accuracy on a dataset against the number of transformations, ours beside the paper's.
func (r Results) Richness(dataset string) (figures.AugmentationCurves, error) {
	paper, err := figures.Paper("effect_aug_full")
	if err != nil {
		return figures.AugmentationCurves{}, err
	}
	figure := figures.AugmentationCurves{Title: r.title(dataset)}
	for _, method := range methods.Names {
		column := dataset + "/" + MethodTitles[method]
		line := figures.AugmentationCurve{Method: MethodTitles[method]}
		for _, row := range Rows {
			if row.Crop != views.IndependentCrop {
				continue
			}
			line.Transformations = append(line.Transformations, row.Transformations())
			line.Cells = append(line.Cells, figures.Cell{Paper: paper.Value(column, row.Heads()...), Ours: r.Values(row.Name, column)})
		}
		figure.Methods = append(figure.Methods, line)
	}
	return figure, nil
}

func (r Results) title(dataset string) string {
	return fmt.Sprintf("%s, %s profile", dataset, r.Profile)
}

func headsOf(row string) []string {
	i := slices.IndexFunc(Rows, func(r Row) bool { return r.Name == row })
	return Rows[i].Heads()
}

// Curve reads the curve of a recorded run on the first dataset that has it. method is the name in the table and row the name of a row. A missing record
// is an error that names the run.
func (r Results) Curve(out, method, row string, seed int) ([]study.Point, error) {
	for _, dataset := range r.Datasets() {
		if record, ok := r.OfSeed(row, dataset+"/"+method, seed); ok {
			return study.ReadCurve[study.Point](filepath.Join(study.Folder(out, Name), filepath.FromSlash(record.Curve)))
		}
	}
	return nil, fmt.Errorf("no record of %s, row %s, seed %d in the %s profile", method, row, seed, r.Profile)
}
