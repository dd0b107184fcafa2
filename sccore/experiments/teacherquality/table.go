package teacherquality

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/samber/lo"
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

// The rows that others are compared with.
var (
	untrained = Condition{Loss: lossUntrained}.row()
	start     = Condition{Loss: lossStart}.row()
	alignment = Condition{Loss: lossAlignment}.row()
)

// top is the detail that gains are plotted against.
const top = "precision_top5"

// kind is one kind of images, with the records on it.
type kind struct {
	study.Results
	conditions          []Condition // The rows.
	column, name, where string      // The column in which losses are compared, how names of tables and figures end, and titles.
}

func kindOf(r study.Results, photographs bool) kind {
	if photographs {
		return kind{r, conditions(r.Profile, true), recipe.ColumnRecall, "-photographs", " on photographs"}
	}
	return kind{r, conditions(r.Profile, false), recipe.ColumnMIoU, "", ""}
}

// table is a table as the file of the experiment has it for the kind, without rows.
func (k kind) table(name string) figures.Table {
	t := study.TableOf(Name, name+k.name)
	return figures.Table{Title: t.Title + k.where, Caption: t.Caption, RowHeads: t.RowHeads}
}

// gain is the gain of a condition over patch alignment alone, from the same start for as many steps, in points of linear mIoU or recall: one value for each seed
// with both runs.
func (k kind) gain(c Condition) []float64 { return k.Differences(k.column, c.row(), alignment) }

// detail is a further number of a condition, the mean over seeds; NaN without runs.
func (k kind) detail(c Condition, name string) float64 {
	return stats.MeanInterval(k.Details(c.row(), k.column, name)).Mean
}

// tables are the tables of photographs, if there are any, and of synthetic scenes.
func tables(r study.Results) (tables []figures.Table) {
	for _, photographs := range []bool{true, false} {
		k := kindOf(r, photographs)
		if slices.Contains(r.Columns(), k.column) || !photographs && len(tables) == 0 {
			tables = append(tables, k.gains(), k.predictions())
		}
	}
	return tables
}

// gains is the table of all conditions.
func (k kind) gains() figures.Table {
	t := k.table("gains")
	t.Columns = []string{k.column, "gain"}
	for _, c := range k.conditions {
		_, source := c.source()
		heads := []string{titles[c.Loss], "", source, "", "", "", ""}
		var gain []float64
		if c.concentrates() {
			gain = k.gain(c)
			heads[1], heads[6] = fmt.Sprintf("%g", c.Share), stats.MeanInterval(gain).Text("%+.1f")
			if end := k.detail(c, "share_at_end"); !math.IsNaN(end) { // Older records lack it.
				heads[1] += fmt.Sprintf(" → %.2g", end)
			}
			if lambda := k.detail(c, "lambda"); !math.IsNaN(lambda) {
				heads[5] = fmt.Sprintf("%.3g", lambda)
			}
			said := func(detail, format string) string {
				value := k.detail(c, detail)
				return lo.Ternary(math.IsNaN(value), "–", fmt.Sprintf(format, value)) // Older records lack some.
			}
			of := func(pairs string) string {
				return strings.Join(lo.Map([]string{"1", "5", "10", "100"}, func(share string, _ int) string { return said(pairs+"precision_top"+share, "%.0f") }), " / ")
			}
			if sccore.ComparesFeatures(c.Loss) {
				heads[3], heads[4] = "–", "–" // What is measured are pairs of the head of patches, which these losses never see.
			} else if !math.IsNaN(k.detail(c, "auc")) {
				heads[3], heads[4] = of("")+"; "+of("objects_"), said("auc", "%.2f")+"; "+said("objects_auc", "%.2f")
			}
		}
		cells := []figures.Cell{k.Cell(c.row(), k.column), k.Derived(gain, k.column, c.row(), alignment)}
		if c.concentrates() {
			cells[1].Images = k.Images(figures.Quantity{Column: k.column, Row: c.row(), MinusRow: alignment})
		}
		t.Rows = append(t.Rows, figures.Row{Heads: heads, Cells: cells})
	}
	k.Describe(&t, "%", k.column)
	return t
}

// predictions is the table of what was predicted: at an equal share of the gradient in the first steps CoTAP gains more than each other loss, and its gain
// follows the precision at the top and not the AUC. Comparisons of the run's own branches came after the first runs. The table is empty for photographs if the
// measure cannot tell trained encoders from random weights there.
func (k kind) predictions() figures.Table {
	t := k.table("predictions")
	t.Columns = []string{"points or correlation"}
	blind := k.where != "" && k.Blind(k.column, untrained, start, alignment)
	if blind {
		t.Caption += " The table is empty, because neither the start nor alignment beats random weights by three standard errors."
	}
	ofCoTAP := lo.FilterMap(k.conditions, func(c Condition, _ int) (row string, ok bool) { return c.row(), c.Loss == sccore.WithCoTAP })
	var p []float64
	add := func(prediction string, values []float64) {
		heads := []string{prediction, stats.MeanInterval(values).Text("%+.2f"), ""}
		t.Rows = append(t.Rows, figures.Row{Heads: heads, Cells: []figures.Cell{k.Derived(values, k.column, ofCoTAP...)}})
	}
	for _, loss := range sccore.PatchConcentrations {
		if loss != sccore.WithCoTAP {
			differences := k.over(loss)
			add(fmt.Sprintf("gain of CoTAP − gain of %s > 0, mean over shares and sources of both", strings.TrimPrefix(titles[loss], "+ ")), differences)
			p = append(p, stats.PValue(differences))
		}
	}
	add("rank correlation of CoTAP's gain with the precision at the top 5 % > 0", k.follows(top))
	add("rank correlation of CoTAP's gain with the AUC", k.follows("auc"))
	for i, corrected := range stats.Holm(p) {
		if !math.IsNaN(corrected) && !blind {
			t.Rows[i].Heads[2] = fmt.Sprintf("%.3f", corrected)
		}
	}
	k.Describe(&t, "", k.column)
	return t
}

// seeds is the number of seeds, up to the highest one with a record.
func (k kind) seeds() int {
	records := lo.FlatMap(k.conditions, func(c Condition, _ int) []study.Record { return k.Of(c.row(), k.column) })
	return lo.Max(lo.Map(records, func(r study.Record, _ int) int { return r.Seed + 1 }))
}

// over returns CoTAP's value minus another loss's value, for each seed the mean over the conditions in which both have run; see [study.Usual].
func (k kind) over(loss string) (differences []float64) {
	of := lo.FilterMap(k.conditions, func(c Condition, _ int) (map[int]float64, bool) {
		same, bySeed := c, map[int]float64{}
		same.Loss = sccore.WithCoTAP
		for seed := range k.seeds() {
			record, ok := k.OfSeed(c.row(), k.column, seed)
			if cotap, both := k.OfSeed(same.row(), k.column, seed); ok && both {
				bySeed[seed] = cotap.Value - record.Value
			}
		}
		return bySeed, c.Loss == loss
	})
	of = study.Usual(of)
	for seed := range k.seeds() {
		ofSeed := lo.FilterMap(of, func(bySeed map[int]float64, _ int) (float64, bool) { value, ok := bySeed[seed]; return value, ok })
		if len(ofSeed) == len(of) && len(of) > 0 {
			differences = append(differences, lo.Mean(ofSeed))
		}
	}
	return differences
}

// follows returns the rank correlation of CoTAP's value at share 1 with a detail of its sources, labels and teachers, for each seed with at least three. The gain
// over alignment of the same seed has the same ranks.
func (k kind) follows(detail string) (correlations []float64) {
	for seed := range k.seeds() {
		var values, qualities []float64
		for _, c := range k.conditions {
			record, ok := k.OfSeed(c.row(), k.column, seed)
			if quality, has := record.Details[detail]; ok && has && c.Loss == sccore.WithCoTAP && c.Share == 1 && c.Teacher >= fromFile {
				values, qualities = append(values, record.Value), append(qualities, quality)
			}
		}
		if correlation, err := stats.Spearman(values, qualities); err == nil && len(values) >= 3 {
			correlations = append(correlations, correlation)
		}
	}
	return correlations
}

// Gains plots the gain at share 1 against the precision of correspondences at the top 5 %, on photographs or on synthetic scenes: one series for each loss that
// learns from correspondences, with filled markers from labels and hollow ones from an encoder.
func Gains(r study.Results, photographs bool) figures.Curves {
	k, what := kindOf(r, photographs), lo.Ternary(photographs, "linear recall over patches", "linear mIoU")
	f := figures.Curves{
		Title: fmt.Sprintf("Gain over patch alignment alone at equal length of the gradient%s, %s profile",
			cmp.Or(k.where, figures.OnImages[figures.Synthetic]), k.Profile),
		X: "precision of correspondences at the top 5 % (%)", Y: "gain in " + what + " (points)", Levels: []float64{0}, Shift: 0.2,
		Note: "mean and 95 % interval; filled: from labels; hollow: from an encoder",
	}
	ascending := slices.SortedStableFunc(slices.Values(k.conditions), func(a, b Condition) int { return cmp.Compare(k.detail(a, top), k.detail(b, top)) })
	for _, loss := range sccore.PatchConcentrations {
		if sccore.ComparesFeatures(loss) {
			continue
		}
		labels := figures.Series{Name: titles[loss], Bars: figures.Intervals, Look: len(f.Series)/2 + 1}
		third := figures.Series{Bars: figures.Intervals, Look: labels.Look, Hollow: true, Apart: true}
		for _, c := range ascending {
			if gains := k.gain(c); c.Loss == loss && c.Share == 1 && len(gains) > 0 {
				of := lo.Ternary(c.Teacher == 0, &labels, &third)
				of.X, of.Values = append(of.X, k.detail(c, top)), append(of.Values, gains)
			}
		}
		if len(labels.X) == 0 { // The legend leaves out what is not there.
			third.Name = labels.Name
		}
		if len(labels.X)+len(third.X) > 0 {
			f.Series = append(f.Series, labels, third)
		}
	}
	return f
}

// drawn draws gains by the precision of correspondences.
func drawn(r study.Results, _ study.FigureSources, all *study.Drawn) {
	for i, name := range []string{"gains", "gains-photographs"} {
		if gains := Gains(r, i == 1); len(gains.Series) > 0 {
			all.Add(gains, nil, "Gain of each loss over patch alignment alone, at equal length of the gradient, by the precision of its correspondences. Filled: from labels; hollow: from an encoder.", name)
		}
	}
}
