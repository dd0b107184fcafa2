// Package patchrecall is the experiment of single patches: do their features tell their class, every class counting the same?
//
// In go PASCAL VOC, CamVid, COCOStuff-27, ADE20k and Cityscapes, or synthetic scenes, and the encoders of package encoders. Out come records of the recall of
// a linear probe and of nearest neighbours, and tables, which the paper does not have. It shows the effect of a training that mIoU hides where
// one class covers most pixels; see [evaluation.PatchRecall].
package patchrecall

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/samber/lo"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/encoders"
)

// Study is the experiment.
var Study = encoders.Experiment[Config]{
	Grid: encoders.Grid[Config]{
		Name: "patch-recall", Table: "semantic_seg", Rules: rules,
	},
	Evaluation: func(c Config) evaluation.Evaluation { return c.recall() },
	Part: func(o study.Options, d evaluation.Data, c Config, _ int) evaluation.Data { // Real images serve every seed.
		if o.Data == "" {
			d.Note = "images drawn for the seed"
			return d
		}
		d.Note = "all test images"
		if n := d.Test.Len(); c.Images > 0 && c.Images < n {
			d.Note = fmt.Sprintf("%d of %d test images", c.Images, n)
		}
		d.Train, d.Test = d.Train.Pick(datasets.Spread(d.Train.Len(), c.Images)), d.Test.Pick(datasets.Spread(d.Test.Len(), c.Images))
		return d
	},
	Columns: func(d evaluation.Data, _ study.Cell[Config]) []string {
		return []string{d.Title() + "/" + linear, d.Title() + "/" + nearest}
	},
	Tables: tables,
}.Spec()

// Parts of columns that name how patches are classified.
const (
	linear  = "linear"
	nearest = "k-NN"
)

// Config is the configuration of a cell.
type Config struct {
	encoders.Config

	Size     int     `json:"size" range:"[1,2048]"`                 // Side in pixels that images are resized to.
	Images   int     `json:"images" range:"[0,2^30]"`               // Images per split and seed: drawn, or taken evenly spread from a real dataset; 0 means all.
	Purity   float64 `json:"purity" range:"(0.5,1]"`                // The least share of a patch's pixels that its class covers.
	PerClass int     `json:"per_class" range:"[1,2^20]"`            // The most patches of a class, in training and in testing. In training each class gives as many as the rarest.
	Least    int     `json:"least" range:"[1,2^20]"`                // Classes with fewer patches, in training or in testing, are left out.
	Steps    int     `json:"probe_steps,omitzero" range:"[0,2^24]"` // Steps of the linear probe; 0 for 1,000.
}

// recall is the evaluation that the configuration asks for.
func (c Config) recall() evaluation.PatchRecall {
	r := evaluation.DefaultPatchRecall()
	r.Size, r.Purity, r.PerClass, r.Least, r.Probe.Steps = c.Size, c.Purity, c.PerClass, c.Least, cmp.Or(c.Steps, r.Probe.Steps)
	return r
}

// rules returns an error for a number or size of images that cannot be drawn.
func rules(c Config, dataset string) error {
	if err := settings.Check(c.recall()); err != nil || !encoders.Drawn(dataset) {
		return err
	}
	return settings.Between("images", c.Images, 2, 1<<30)
}

// Names of details: the recall without the class background, and what chance is.
const (
	detailChance           = "chance"
	detailForeground       = "foreground"
	detailForegroundChance = "foreground_chance"
)

// tables returns a table of all encoders and datasets with records, one of what training is worth, and the first without the class background where there is
// such a class.
func tables(results study.Results) []figures.Table {
	rows := encoders.AllRows(results, "semantic_seg", results.Columns()...)
	columns := encoders.ColumnsOf(results, rows, results.Columns()...)
	slices.SortFunc(columns, encoders.ByPlace(encoders.DatasetsOf(columns), []string{linear, nearest}))
	t := encoders.Alone("Recall of classes over patches",
		"Mean over classes of the share of patches that are classified rightly. "+chances(results, rows, columns, detailChance)+"The paper has no such table.",
		rows, study.Columns("", columns...)...)
	all := []figures.Table{t.Of(results)}
	if gains := encoders.Gains(results, "What training is worth in recall over patches", "recall", columns...); len(gains.Rows) > 0 {
		all = append(all, gains)
	}
	columns = slices.DeleteFunc(columns, func(column string) bool { return len(details(results, rows, column, detailForeground)) == 0 })
	if t.Columns = study.Columns(detailForeground, columns...); len(columns) > 0 {
		t.Title += ", without background"
		t.Caption = strings.TrimSpace("Recall as in the first table, over patches of all classes but background. " + chances(results, rows, columns, detailForegroundChance))
		all = append(all, t.Of(results))
	}
	return all
}

// chances says what chance is on each dataset, and why it differs where it does; it is empty without records.
func chances(results study.Results, rows []study.Row, columns []string, detail string) string {
	var parts []string
	why := ""
	for _, dataset := range encoders.DatasetsOf(columns) {
		values := lo.FlatMap(columns, func(column string, _ int) []float64 {
			return lo.Ternary(strings.HasPrefix(column, dataset+"/"), details(results, rows, column, detail), nil)
		})
		part := fmt.Sprintf("%.1f %% on %s", lo.Min(values), dataset)
		if lo.Min(values) != lo.Max(values) {
			part = fmt.Sprintf("%.1f to %.1f %% on %s", lo.Min(values), lo.Max(values), dataset)
			why = "Chance differs where the classes do: one counts where a seed's images have enough patches of it. "
		}
		if len(values) > 0 {
			parts = append(parts, part)
		}
	}
	return lo.Ternary(len(parts) == 0, "", "Chance is "+strings.Join(parts, ", ")+". "+why)
}

// details returns a detail of a column's records.
func details(results study.Results, rows []study.Row, column, name string) []float64 {
	return lo.FlatMap(rows, func(row study.Row, _ int) []float64 { return results.Details(row.Key, column, name) })
}
