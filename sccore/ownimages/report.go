package ownimages

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/figures/features"
	"github.com/semcon/semcon/figures/page"
	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/tensorboard"
	"github.com/semcon/semcon/sccore/weights"
)

// The report's plots.
const (
	notPlotted = iota
	plotLosses
	plotEntropies
	plotRank
	plotSimilarities
)

// series is a number along a run: its column in metrics.csv, its tag in TensorBoard, and the plot of the report that shows it under a title.
type series struct {
	column, tag string
	plot        int
	title       string
	of          func(Point) float64

	name, meaning, shown string // Of a diagnostic, in the report's table: its name, what it means, and the format of its values. Others are numbers of every step.
}

// at is the number at a point of a curve; NaN if it was not measured.
func (s series) at(p Point) float64 {
	if s.name == "" && p.Step == 0 || s.name != "" && p.Diagnostics == nil {
		return math.NaN()
	}
	return s.of(p)
}

// gauges are in the order of metrics.csv. k-NN accuracy needs class folders.
var gauges = []series{
	{"effective_rank", "gauge/effective_rank", plotRank, "patch features", func(p Point) float64 { return p.Diagnostics.Rank },
		"effective rank", "of patch features, of at most %d", "%.1f"},
	{"feature_std", "gauge/feature_std", notPlotted, "", func(p Point) float64 { return p.Diagnostics.Std },
		"spread", "of patch features: 0 when they have collapsed to a point", "%.3f"},
	{"similarity", "gauge/similarity", plotSimilarities, "similarity", func(p Point) float64 { return p.Diagnostics.Similarity },
		"similarity", "to the initial features (linear CKA): 1 is equal up to rotation and scale, 0 is nothing in common", "%.3f"},
	{"cosine", "gauge/cosine", plotSimilarities, "cosine", func(p Point) float64 { return p.Diagnostics.Cosine },
		"cosine", "of a patch's feature with its initial one", "%.3f"},
	{"kept_neighbours", "gauge/kept_neighbours", plotSimilarities, "neighbours kept", func(p Point) float64 { return p.Diagnostics.Kept },
		"neighbours kept", "of the ten nearest patches of a patch, those that are the same as before", "%.2f"},
	{"knn_accuracy", "gauge/knn_accuracy", plotSimilarities, "k-NN accuracy", func(p Point) float64 { return p.Diagnostics.KNN },
		"k-NN accuracy", "of held-out images, by their 20 nearest training images and the class folders", "%.1f %%"},
}

// tableOrder lists the places of the gauges in the order of the report's table.
var tableOrder = []int{5, 2, 4, 3, 0, 1}

// series lists the numbers of the run.
func (r *run) series() (all []series) {
	c := r.config
	add := func(column, tag string, plot int, title string, of func(Point) float64) {
		all = append(all, series{column: column, tag: tag, plot: plot, title: title, of: of})
	}
	add("learning_rate", "step/learning_rate", notPlotted, "", func(p Point) float64 { return p.LearningRate })
	add("gradient_norm", "step/gradient_norm", notPlotted, "", func(p Point) float64 { return p.GradientNorm })
	add("loss", "loss/total", plotLosses, "total", func(p Point) float64 { return p.Total })
	for _, loss := range sccore.Losses {
		if loss.Lambda(c.Lambdas) > 0 {
			add(loss.Name, "loss/"+loss.Name, plotLosses, loss.Title, func(p Point) float64 { return loss.Value(p.StepMetrics) })
		}
	}
	if c.Lambdas.ImageAlignment+c.Lambdas.ImageConcentration > 0 {
		add("image_entropy", "entropy/image", plotEntropies, "images", func(p Point) float64 { return p.ImageEntropy })
		add("image_entropy_bound", "entropy/image_bound", notPlotted, "", func(Point) float64 { return math.Log(float64(c.ImageHead.OutDim)) })
	}
	if c.Lambdas.PatchAlignment > 0 {
		add("patch_entropy", "entropy/patch", plotEntropies, "patches", func(p Point) float64 { return p.PatchEntropy })
		add("patch_entropy_bound", "entropy/patch_bound", plotEntropies, "at most, ln K", func(Point) float64 { return r.entropyBound() })
	}
	return append(all, r.gauges()...)
}

// entropyBound is the largest entropy of the targets of patches, in nats.
func (r *run) entropyBound() float64 { return math.Log(float64(r.config.PatchHead.OutDim)) }

// gauges are those that the run measures.
func (r *run) gauges() []series {
	return lo.Ternary(r.images.classes == nil, gauges[:len(gauges)-1], gauges)
}

// describe says the diagnostics of the last point in a line, and in another one what they warn of, which later lines only mention.
func (r *run) describe(p Point) string {
	d := *p.Diagnostics
	line := fmt.Sprintf("step %d: effective rank %.1f, similarity %.3f, %.0f %% of neighbours kept", p.Step, d.Rank, d.Similarity, 100*d.Kept)
	if p.Step > 0 {
		line += fmt.Sprintf(", loss %.3f", p.Total)
	}
	if p.PatchEntropy > 0 {
		line += fmt.Sprintf(", target entropy %.2f of at most %.2f", p.PatchEntropy, r.entropyBound())
	}
	if r.images.classes != nil {
		line += fmt.Sprintf(", k-NN %.1f %%", d.KNN)
	}
	damage := r.verdict.damage(r.state.Curve, p)
	if damage == "" {
		return line
	}
	if step, warned := r.verdict.damagedBefore(r.state.Curve, damage); warned {
		return line + fmt.Sprintf("; damaged, as at step %d", step)
	}
	return line + "\nwarning: " + damage + "; a lower learning rate (--set rate=…) may keep them"
}

// writeCurves writes metrics.csv and the events, with the settings and the patch features.
func (r *run) writeCurves() (err error) {
	defer try.Handle(&err)
	settings := try.E1(json.MarshalIndent(r.config, "", "  "))
	all, points := r.series(), []tensorboard.Point{}
	rows := [][]string{append([]string{"step"}, lo.Map(all, func(s series, _ int) string { return s.column })...)}
	for _, p := range r.state.Curve {
		row := []string{strconv.Itoa(p.Step)}
		// The clock is the step: the file must not depend on the machine's speed.
		event := tensorboard.Point{Step: int64(p.Step), WallTime: float64(p.Step), Scalars: map[string]float64{}}
		for _, s := range all {
			text := ""
			if value := s.at(p); !math.IsNaN(value) {
				text = strconv.FormatFloat(value, 'g', -1, 64)
				event.Scalars[s.tag] = value
			}
			row = append(row, text)
		}
		if p.Step == 0 {
			event.Texts = map[string]string{"settings": "```json\n" + string(settings) + "\n```"}
		}
		if picture, err := os.ReadFile(r.path(fmt.Sprintf(pictures, p.Step))); err == nil && p.Diagnostics != nil {
			event.Images = map[string][]byte{"patch features before and after": picture}
		}
		rows, points = append(rows, row), append(points, event)
	}
	var text bytes.Buffer
	try.E(csv.NewWriter(&text).WriteAll(rows))
	try.E(atomicfile.WriteBytes(r.path(MetricsFile), text.Bytes()))
	return atomicfile.WriteBytes(r.path(EventsFile), tensorboard.Encode(points))
}

// plots draws the losses, the entropy of the targets and the diagnostics.
func (r *run) plots() figures.CurvesRow {
	row := figures.CurvesRow{{X: "step", Y: "loss"}, {X: "step", Y: "entropy of targets (nats)"}, {X: "step", Y: "effective rank"}, {X: "step", Y: "held-out images"}}
	for _, s := range r.series() {
		for _, p := range r.state.Curve {
			value := s.at(p)
			if s.plot == notPlotted || math.IsNaN(value) {
				continue
			}
			if s.column == "knn_accuracy" { // As a share, like the others of its plot.
				value /= 100
			}
			figures.AddPoint(&row[s.plot-1].Series, s.title, float64(p.Step), value)
		}
	}
	return row
}

//go:embed report.html
var reportText string

var reportTemplate = page.Template(reportText)

// reportRow is a line of the report's table: a number at step 0, at the best and at the last step.
type reportRow struct{ Name, Meaning, Initial, Best, Last string }

// report writes the page. It depends on the run alone, not on how often it was interrupted.
func (r *run) report() (err error) {
	defer try.Handle(&err)
	const shownImages, shownSkipped = 10, 100
	v, curve, points := r.verdict, r.state.Curve, measured(r.state.Curve)
	last := points[len(points)-1]
	best, _, ok := v.best(curve)
	bestBy, rule := v.rule(curve)
	settings := try.E1(json.MarshalIndent(r.config, "", "  "))
	curves := try.E1(page.Image(r.plots()))
	skipped := slices.Concat(r.images.Skipped, r.state.Skipped)
	shown := min(len(skipped), shownSkipped)
	content := map[string]any{
		"Run": r.about, "Title": strings.Join(r.Folders.Images, ", "), "Out": r.Out, "EncoderFile": EncoderFile, "BestFile": BestFile, "Steps": r.config.Steps, "Settings": string(settings),
		"Done": last.Step,
		"Held": r.images.held.Len(), "Classes": v.classes, "Queries": v.queries, "Chance": fmt.Sprintf("%.1f %%", 100/float64(max(v.classes, 1))),
		"HasBest": ok, "BestStep": best.Step, "BestBy": bestBy, "Rule": rule, "Curves": curves,
		"SkippedCount": len(skipped), "Skipped": skipped[:shown], "MoreSkipped": len(skipped) - shown,
	}
	if damaged, found := lo.Find(points[1:], func(p Point) bool { return v.damage(curve, p) != "" }); found {
		content["Damage"], content["DamageStep"] = v.damage(curve, damaged), damaged.Step
	}
	if bound := r.entropyBound(); last.PatchEntropy > 0.99*bound {
		content["NoInformation"] = fmt.Sprintf("%.3f of at most %.3f", last.PatchEntropy, bound)
	}
	var rows []reportRow
	for _, at := range tableOrder[len(gauges)-len(r.gauges()):] {
		g := gauges[at]
		row := reportRow{Name: g.name, Meaning: g.meaning, Initial: fmt.Sprintf(g.shown, g.at(points[0])), Last: fmt.Sprintf(g.shown, g.at(last))}
		if g.column == "effective_rank" {
			row.Meaning = fmt.Sprintf(g.meaning, r.trainer.Frozen.ViT.Dim)
		}
		if ok {
			row.Best = fmt.Sprintf(g.shown, g.at(best))
		}
		rows = append(rows, row)
	}
	content["Rows"] = rows
	viewer := try.E1(features.NewViewer(r.backend, r.config, r.about.Size, r.images.held, min(shownImages, r.images.held.Len())))
	for name, draw := range map[string]func(...features.NamedEncoder) (figures.ImageGrid, error){"Patches": viewer.Components, "Matches": viewer.Correspondences} {
		drawn := try.E1(draw(features.NamedEncoder{Name: "before", File: r.path(InitialFile)}, features.NamedEncoder{Name: "after", File: r.path(EncoderFile)}))
		content[name] = try.E1(page.Image(drawn))
		if name == "Patches" {
			if _, picture, err := figures.Render(drawn); err != nil {
				return err
			} else if err := atomicfile.WriteBytes(r.path(fmt.Sprintf(pictures, last.Step)), picture); err != nil {
				return err
			}
		}
	}
	return page.Write(r.path(ReportFile), reportTemplate, content)
}

// export writes the encoder of the online branch under the names that it came in.
func (r *run) export(file string) error {
	vit, store, scope := r.trainer.Encoder(sccore.Online)
	return weights.Export(r.path(file), r.naming, store, scope, vit, nil, map[string]string{
		"format": "pt", "architecture": vit.Name, "positions": string(vit.Positions), "step": strconv.Itoa(r.trainer.Done()),
	})
}

// finish writes the encoder with its card and configuration, the curves and the report.
func (r *run) finish() (err error) {
	defer try.Handle(&err)
	vit, _, _ := r.trainer.Encoder(sccore.Online)
	card := weights.Card{ViT: vit, Naming: r.naming, Preprocessing: datasets.DefaultPreprocessing(), Size: r.about.Size, Facts: []weights.Fact{
		{Name: "Trained by", Text: r.about.Command}, {Name: "From", Text: r.about.Init}, {Name: "Images", Text: r.about.Images}, {Name: "Settings", Text: string(r.about.Config)},
	}}
	file := r.path(EncoderFile)
	try.E(r.export(EncoderFile))
	try.E(cmp.Or(weights.WriteConfig(file, r.naming, vit, card.Preprocessing, r.about.Size), r.report(), r.writeCurves()))
	return card.Write(file) // The last file of a run.
}

// Records returns the last value of each column of a run's metrics as a record, so that runs can be compared. Their seed is 0, and the run's own is a
// setting: two runs are compared whatever their seeds. The error is an [fs.ErrNotExist] if the folder holds no run.
func Records(out string) (records []study.Record, err error) {
	defer try.Handle(&err)
	content := try.E1(os.ReadFile(filepath.Join(out, runFile)))
	var about description
	config := map[string]any{}
	if err := json.Unmarshal(content, &about); err != nil {
		return nil, fmt.Errorf("%s: %.300w", filepath.Join(out, runFile), err)
	}
	if err := json.Unmarshal(about.Config, &config); err != nil {
		return nil, fmt.Errorf("%s: config: %.300w", filepath.Join(out, runFile), err)
	}
	config["(seed)"], config["(init)"] = about.Seed, about.Init
	encoded := try.E1(json.Marshal(config))
	points, err := ReadMetrics(filepath.Join(out, MetricsFile))
	if err != nil {
		return nil, fmt.Errorf("the run has no metrics yet: %v", err)
	}
	last := map[string]string{}
	for _, point := range points { // What is empty was not measured at this step.
		maps.Copy(last, lo.OmitByValues(point, []string{""}))
	}
	for column, text := range last {
		if value, err := strconv.ParseFloat(text, 64); err == nil {
			records = append(records, study.Record{
				Experiment: "train", Cell: filepath.Base(out), Row: "last", Column: column, Value: value, Config: encoded, ConfigHash: study.Hash(encoded),
				Data: about.Images + ", content " + about.Content, Curve: MetricsFile,
			})
		}
	}
	return records, nil
}

// ReadMetrics reads the points of a run's metrics by column; what was not measured is empty. The last line of a copy may be cut off, and is left out. The error
// names the file.
func ReadMetrics(file string) (points []map[string]string, err error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	table := csv.NewReader(bytes.NewReader(content))
	table.FieldsPerRecord = -1
	rows, err := table.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for _, row := range rows[min(1, len(rows)):] {
		if len(row) == len(rows[0]) {
			points = append(points, lo.SliceToMapI(row, func(text string, i int) (column, value string) { return rows[0][i], text }))
		}
	}
	return points, nil
}
