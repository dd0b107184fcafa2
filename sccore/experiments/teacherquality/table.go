package teacherquality

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/semcon/semcon/analysis/stats"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/study"
)

// titles are the names of the losses in tables and legends.
var titles = map[string]string{
	lossUntrained: "untrained", lossStart: "alignment, the start", lossAlignment: "patch alignment",
	sccore.WithCoTAP: "+ CoTAP", sccore.WithBCE: "+ binary cross-entropy", sccore.WithGram: "+ Gram anchoring", sccore.WithPaKA: "+ PaKA", sccore.WithNeCo: "+ NeCo",
	sccore.WithFastAP: "+ FastAP", sccore.WithSmoothAP: "+ Smooth-AP",
}

// Results are the records of the study in one profile, on photographs or on synthetic scenes. A row is a condition. There is one column on scenes, and one more
// on photographs, whose first column counts.
type Results struct {
	study.Results
	photographs bool
}

// Load reads the study's records on synthetic scenes under the folder out.
func Load(out string, profile study.Profile) (Results, error) {
	results, err := Study.Load(out, profile)
	return Results{results, false}, err
}

// OnPhotographs are the same records, those on photographs.
func (r Results) OnPhotographs() Results {
	r.photographs = true
	return r
}

// column is the column in which losses are compared.
func (r Results) column() string {
	if r.photographs {
		return recipe.ColumnRecall
	}
	return recipe.ColumnMIoU
}

// conditions lists the rows.
func (r Results) conditions() []Condition { return conditions(r.Profile, r.photographs) }

// recorded reports whether there are any records.
func (r Results) recorded() bool { return slices.Contains(r.Columns(), r.column()) }

// sourceTitle is the title of a condition's source in tables.
func sourceTitle(c Condition) string {
	switch {
	case !c.concentrates():
		return ""
	case c.Teacher == fromFile:
		return "third encoder, from a file"
	case c.Teacher > 0:
		return fmt.Sprintf("third encoder, %d steps", c.Teacher)
	case c.Errors == errorsOfPairs:
		return fmt.Sprintf("labels, %.0f %% of pairs random", 100*c.Level)
	case c.Errors == errorsOfObjects:
		return fmt.Sprintf("labels, %.0f %% of objects mistaken", 100*c.Level)
	}
	return "labels"
}

// Gain is the gain of a condition over patch alignment alone, from the same start for as many steps, in points of linear mIoU or recall: one value for each seed
// with both runs.
func (r Results) Gain(c Condition) []float64 {
	return r.Differences(r.column(), c.row(), Condition{Loss: lossAlignment}.row())
}

// detail is a further number of a condition, the mean over seeds; NaN without runs.
func (r Results) detail(c Condition, name string) float64 {
	return stats.MeanInterval(r.Details(c.row(), r.column(), name)).Mean
}

// top is the detail that gains are plotted against.
const top = "precision_top5"

// tables are those of photographs, if there are any, and those of synthetic scenes.
func (r Results) tables() (tables []figures.Table) {
	for _, r := range []Results{r.OnPhotographs(), r} {
		if !r.recorded() && (r.photographs || len(tables) > 0) {
			continue
		}
		tables = append(tables, r.gains(), r.predictions())
	}
	return tables
}

// measure says in captions what is measured, and on what.
func (r Results) measure() (what, where string) {
	if r.photographs {
		return "Linear recall over patches of PASCAL VOC, every class counting the same,", " on photographs"
	}
	return "Linear mIoU", ""
}

// gains is the table of all conditions.
func (r Results) gains() figures.Table {
	what, where := r.measure()
	starts, none := "one checkpoint per seed", "pairs of background with background"
	if r.photographs {
		starts, none = "one checkpoint for all seeds", "pairs of two patches whose annotation is ignored. Intervals leave out the shares of the start, of the teacher and of the images that train the probe, which serve all seeds"
	}
	t := figures.Table{
		Title: "Gain of patch concentration by its loss, the share of its gradient and the quality of its correspondences" + where,
		Caption: what + " after the second stage, which starts from " + starts + " and has as many steps in all rows from patch alignment on, and the gain over patch " +
			"alignment alone on the same seed with its 95 % interval. The share is the length of the loss's gradient beside alignment's, set in the first steps. " +
			"Precision is that of the correspondences among the top 1, 5, 10 and 100 % of pairs, without " + none + ". The paper has no such table.",
		RowHeads: []figures.RowHead{{Name: "loss"}, {Name: "share"}, {Name: "correspondences"}, {Name: "precision at the top 1 / 5 / 10 / 100 %"}, {Name: "AUC"}, {Name: "λ2"},
			{Name: "interval of the gain"}},
		Columns: []string{r.column(), "gain"},
	}
	for _, c := range r.conditions() {
		heads := []string{titles[c.Loss], "", sourceTitle(c), "", "", "", ""}
		var gain []float64
		if c.concentrates() {
			heads[1] = fmt.Sprintf("%g", c.Share)
			if auc := r.detail(c, "auc"); !math.IsNaN(auc) {
				var precisions []string
				for _, share := range []string{"1", "5", "10", "100"} {
					precision := "–" // Records of before have none of all pairs.
					if value := r.detail(c, "precision_top"+share); !math.IsNaN(value) {
						precision = fmt.Sprintf("%.0f", value)
					}
					precisions = append(precisions, precision)
				}
				heads[3] = strings.Join(precisions, " / ")
				heads[4], heads[5] = fmt.Sprintf("%.2f", auc), fmt.Sprintf("%.3g", r.detail(c, "lambda"))
			}
			gain = r.Gain(c)
			if interval := stats.MeanInterval(gain); !math.IsNaN(interval.Low) {
				heads[6] = strings.ReplaceAll(fmt.Sprintf("%+.1f to %+.1f", interval.Low, interval.High), "-", "−")
			}
		}
		t.Rows = append(t.Rows, figures.Row{Heads: heads, Cells: []figures.Cell{
			r.Cell(c.row(), r.column()), r.Derived(gain, r.column(), c.row(), Condition{Loss: lossAlignment}.row()),
		}})
	}
	r.Describe(&t, "%", r.column())
	return t
}

// predictions is the table of what was predicted before any run: at an equal share of the gradient CoTAP gains more than each other loss, and its gain
// follows the precision at the top and not the AUC.
func (r Results) predictions() figures.Table {
	_, where := r.measure()
	t := figures.Table{
		Title: "What was predicted" + where,
		Caption: "Predicted: at an equal share of the gradient and from the same source CoTAP gains more than the other losses; and over the sources, at share 1, its gain " +
			"follows the precision at the top, not the AUC. p-values are of two-sided t-tests over seeds, with Holm's correction over the rows." + r.blindness(),
		RowHeads: []figures.RowHead{{Name: "prediction"}, {Name: "95 % interval"}, {Name: "corrected p"}},
		Columns:  []string{"points or correlation"},
	}
	type prediction struct {
		text   string
		values []float64
		rows   []string // Of the records.
	}
	var rows []prediction
	var ofCoTAP []string
	for _, c := range r.conditions() {
		if c.Loss == sccore.WithCoTAP {
			ofCoTAP = append(ofCoTAP, c.row())
		}
	}
	for _, loss := range sccore.PatchConcentrations {
		if loss != sccore.WithCoTAP {
			rows = append(rows, prediction{fmt.Sprintf("gain of CoTAP − gain of %s > 0, mean over shares and sources of both", strings.TrimPrefix(titles[loss], "+ ")), r.over(loss), ofCoTAP})
		}
	}
	rows = append(rows, prediction{"rank correlation of CoTAP's gain with the precision at the top 5 % > 0", r.follows(top), ofCoTAP},
		prediction{"rank correlation of CoTAP's gain with the AUC", r.follows("auc"), ofCoTAP})
	var p []float64
	for _, row := range rows {
		p = append(p, stats.PValue(row.values))
	}
	blind := r.blindness() != ""
	for i, corrected := range stats.Holm(p) {
		heads := []string{rows[i].text, "", ""}
		if interval := stats.MeanInterval(rows[i].values); !math.IsNaN(interval.Low) {
			heads[1] = strings.ReplaceAll(fmt.Sprintf("%+.2f to %+.2f", interval.Low, interval.High), "-", "−")
		}
		if !math.IsNaN(corrected) && !blind {
			heads[2] = fmt.Sprintf("%.3f", corrected)
		}
		t.Rows = append(t.Rows, figures.Row{Heads: heads, Cells: []figures.Cell{r.Derived(rows[i].values, r.column(), rows[i].rows...)}})
	}
	r.Describe(&t, "", r.column())
	return t
}

// blindness says that the measure does not show training, if it does not: nothing is inferred from it then. Empty for synthetic scenes.
func (r Results) blindness() string {
	if !r.photographs || !r.Blind(r.column(), Condition{Loss: lossUntrained}.row(), Condition{Loss: lossStart}.row(), Condition{Loss: lossAlignment}.row()) {
		return ""
	}
	return " There are none here: neither the start nor alignment is above random weights by three standard errors."
}

// over returns CoTAP's value minus that of another loss, for each seed the mean over the conditions in which both have run.
func (r Results) over(loss string) (differences []float64) {
	bySeed := map[int][]float64{}
	var seeds []int
	for _, c := range r.conditions() {
		if c.Loss != loss {
			continue
		}
		same := c
		same.Loss = sccore.WithCoTAP
		for _, record := range r.Of(c.row(), r.column()) {
			if cotap, ok := r.OfSeed(same.row(), r.column(), record.Seed); ok {
				if bySeed[record.Seed] == nil {
					seeds = append(seeds, record.Seed)
				}
				bySeed[record.Seed] = append(bySeed[record.Seed], cotap.Value-record.Value)
			}
		}
	}
	slices.Sort(seeds)
	for _, seed := range seeds {
		differences = append(differences, stats.MeanInterval(bySeed[seed]).Mean)
	}
	return differences
}

// follows returns the rank correlation of CoTAP's value at share 1 with a detail of its sources, for each seed with at least three sources. The gain over
// alignment of the same seed has the same ranks.
func (r Results) follows(detail string) (correlations []float64) {
	gains, qualities := map[int][]float64{}, map[int][]float64{}
	var seeds []int
	for _, c := range r.conditions() {
		if c.Loss != sccore.WithCoTAP || c.Share != 1 {
			continue
		}
		for _, record := range r.Of(c.row(), r.column()) {
			if gains[record.Seed] == nil {
				seeds = append(seeds, record.Seed)
			}
			gains[record.Seed] = append(gains[record.Seed], record.Value)
			qualities[record.Seed] = append(qualities[record.Seed], record.Details[detail])
		}
	}
	slices.Sort(seeds)
	for _, seed := range seeds {
		if correlation, err := stats.Spearman(gains[seed], qualities[seed]); err == nil && len(gains[seed]) >= 3 {
			correlations = append(correlations, correlation)
		}
	}
	return correlations
}

// Gains plots the gain at share 1 against the precision of correspondences at the top 5 %: one series for each loss. Hollow markers are of third encoders.
func (r Results) Gains() figures.GainPlot {
	what := "linear mIoU"
	if r.photographs {
		what = "linear recall over patches"
	}
	_, where := r.measure()
	f := figures.GainPlot{
		Title: fmt.Sprintf("Gain over patch alignment alone at equal length of the gradient%s, %s profile", where, r.Profile),
		X:     "precision of correspondences at the top 5 % (%)", Y: "gain in " + what + " (points)",
	}
	for _, loss := range sccore.PatchConcentrations {
		series := figures.GainSeries{Name: titles[loss]}
		for _, c := range r.conditions() {
			if gains := r.Gain(c); c.Loss == loss && c.Share == 1 && len(gains) > 0 {
				series.Points = append(series.Points, figures.GainPoint{X: r.detail(c, top), Gains: gains, Real: c.Teacher != 0})
			}
		}
		slices.SortFunc(series.Points, func(a, b figures.GainPoint) int {
			if a.X < b.X {
				return -1
			}
			return 1
		})
		if len(series.Points) > 0 {
			f.Series = append(f.Series, series)
		}
	}
	return f
}
