package detection

import (
	"slices"
	"strings"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/encoders"
)

// tables returns the paper's two tables, and the numbers of the second one for each dataset and encoder that the paper does not have.
func tables(results study.Results) []figures.Table {
	coco := []string{column("COCO", boxes), column("COCO", masks)}
	var all []figures.Table
	for _, name := range []string{"obj_det", "obj_det_full"} {
		columns := encoders.Details(coco, "", figures.MustPaper(name).Columns...)
		all = append(all, encoders.Beside(name, "Object detection and instance segmentation on COCO: AP of boxes (b) and of masks (m).", columns...).Of(results))
	}
	rows := encoders.PaperRows("obj_det")
	for _, dataset := range (Results{results}).Datasets() {
		from := []string{column(dataset, boxes), column(dataset, masks)}
		ours := encoders.WithRecords(results, encoders.OurRows(), from...)
		if dataset != "COCO" {
			ours = append(ours, encoders.WithRecords(results, rows, from...)...)
		}
		if len(ours) == 0 {
			continue
		}
		t := encoders.Alone("Tab. obj_det_full on "+dataset+", for encoders that the paper does not have",
			"AP of boxes (b) and of masks (m). Alignment, or the initialisation, is what the full method begins from.",
			ours, encoders.Details(from, "", all[1].Columns...)...)
		t.RowHeads = []figures.RowHead{{Name: "encoder"}}
		all = append(all, t.Of(results))
	}
	return all
}

// Results are the records of the experiment in one profile.
type Results struct{ study.Results }

// Load reads the experiment's records under the folder out.
func Load(out string, profile study.Profile) (Results, error) {
	results, err := Study.Load(out, profile)
	return Results{results}, err
}

// Datasets returns the names of the datasets with records, in alphabetical order.
func (r Results) Datasets() (names []string) {
	for _, column := range r.Columns() {
		if name, _, _ := strings.Cut(column, "/"); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
