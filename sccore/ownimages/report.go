package ownimages

import (
	"bytes"
	_ "embed"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"html/template"
	"math"
	"strconv"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/figures/features"
	"github.com/semcon/semcon/figures/page"
	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/tensorboard"
	"github.com/semcon/semcon/sccore/weights"
)

// Numbers of what the report shows.
const (
	shownImages  = 10
	shownSkipped = 100
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
	of          func(Point) float64 // NaN if it was not measured.
}

// diagnostic is one of [Diagnostics]: its column, its title in plots, and how the report's table shows it.
type diagnostic struct {
	column               string
	plot                 int
	title                string
	name, meaning, shown string
	of                   func(Diagnostics) float64
}

// diagnostics are in the order of metrics.csv. k-NN accuracy needs class folders.
var diagnostics = []diagnostic{
	{"effective_rank", plotRank, "patch features", "effective rank", "of patch features, of at most %d", "%.1f", func(d Diagnostics) float64 { return d.Rank }},
	{"feature_std", notPlotted, "", "spread", "of patch features: 0 when they have collapsed to a point", "%.3f", func(d Diagnostics) float64 { return d.Std }},
	{
		"similarity", plotSimilarities, "similarity", "similarity", "to the initial features (linear CKA): 1 is equal up to rotation and scale, 0 is nothing in common", "%.3f",
		func(d Diagnostics) float64 { return d.Similarity },
	},
	{"cosine", plotSimilarities, "cosine", "cosine", "of a patch's feature with its initial one", "%.3f", func(d Diagnostics) float64 { return d.Cosine }},
	{
		"kept_neighbours", plotSimilarities, "neighbours kept", "neighbours kept", "of the ten nearest patches of a patch, those that are the same as before", "%.2f",
		func(d Diagnostics) float64 { return d.Kept },
	},
	{
		"knn_accuracy", plotSimilarities, "k-NN accuracy", "k-NN accuracy", "of held-out images, by their 20 nearest training images and the class folders", "%.1f %%",
		func(d Diagnostics) float64 { return d.KNN },
	},
}

// tableOrder lists the places of the diagnostics in the order of the report's table.
var tableOrder = []int{5, 2, 4, 3, 0, 1}

// series lists the numbers of the run.
func (r *run) series() (all []series) {
	c := r.config
	step := func(on bool, column, tag string, plot int, title string, of func(sccore.StepMetrics) float64) {
		if on {
			all = append(all, series{column, tag, plot, title, func(p Point) float64 {
				if p.Step == 0 {
					return math.NaN()
				}
				return of(p.StepMetrics)
			}})
		}
	}
	step(true, "learning_rate", "step/learning_rate", notPlotted, "", func(m sccore.StepMetrics) float64 { return m.LearningRate })
	step(true, "gradient_norm", "step/gradient_norm", notPlotted, "", func(m sccore.StepMetrics) float64 { return m.GradientNorm })
	step(true, "loss", "loss/total", plotLosses, "total", func(m sccore.StepMetrics) float64 { return m.Total })
	for _, loss := range sccore.Losses {
		step(loss.Lambda(c.Lambdas) > 0, loss.Name, "loss/"+loss.Name, plotLosses, loss.Title, loss.Value)
	}
	entropy := func(on bool, level, title string, out int, of func(sccore.StepMetrics) float64) {
		bound, plot := "", notPlotted
		if level == "patch" {
			bound, plot = "at most, ln K", plotEntropies
		}
		step(on, level+"_entropy", "entropy/"+level, plotEntropies, title, of)
		step(on, level+"_entropy_bound", "entropy/"+level+"_bound", plot, bound, func(sccore.StepMetrics) float64 { return math.Log(float64(out)) })
	}
	entropy(c.Lambdas.ImageAlignment+c.Lambdas.ImageConcentration > 0, "image", "images", c.ImageHead.OutDim, func(m sccore.StepMetrics) float64 { return m.ImageEntropy })
	entropy(c.Lambdas.PatchAlignment > 0, "patch", "patches", c.PatchHead.OutDim, func(m sccore.StepMetrics) float64 { return m.PatchEntropy })
	for _, d := range r.diagnostics() {
		all = append(all, series{d.column, "gauge/" + d.column, d.plot, d.title, func(p Point) float64 {
			if p.Diagnostics == nil {
				return math.NaN()
			}
			return d.of(*p.Diagnostics)
		}})
	}
	return all
}

// diagnostics are those that the run measures.
func (r *run) diagnostics() []diagnostic {
	if r.images.classes == nil {
		return diagnostics[:len(diagnostics)-1]
	}
	return diagnostics
}

// describe says the diagnostics of the last point in a line, and in another one what they warn of, which later lines only mention.
func (r *run) describe(p Point) string {
	d := *p.Diagnostics
	line := fmt.Sprintf("step %d: effective rank %.1f, similarity %.3f, %.0f %% of neighbours kept", p.Step, d.Rank, d.Similarity, 100*d.Kept)
	if p.Step > 0 {
		line += fmt.Sprintf(", loss %.3f", p.Total)
	}
	if p.PatchEntropy > 0 {
		line += fmt.Sprintf(", target entropy %.2f of at most %.2f", p.PatchEntropy, math.Log(float64(r.config.PatchHead.OutDim)))
	}
	if r.images.classes != nil {
		line += fmt.Sprintf(", k-NN %.1f %%", d.KNN)
	}
	v := r.verdict()
	damage := v.damage(r.state.Curve, p)
	if damage == "" {
		return line
	}
	if step, warned := v.damagedBefore(r.state.Curve, damage); warned {
		return line + fmt.Sprintf("; damaged, as at step %d", step)
	}
	return line + "\nwarning: " + damage + "; a lower learning rate (--set rate=…) may keep them"
}

// writeCurves writes metrics.csv and the events.
func (r *run) writeCurves() error {
	all, header, points := r.series(), []string{"step"}, []tensorboard.Point{}
	for _, s := range all {
		header = append(header, s.column)
	}
	rows := [][]string{header}
	for _, p := range r.state.Curve {
		row := []string{strconv.Itoa(p.Step)}
		// The clock is the step: the file must not depend on the machine's speed.
		event := tensorboard.Point{Step: int64(p.Step), WallTime: float64(p.Step), Scalars: map[string]float64{}}
		for _, s := range all {
			text := ""
			if value := s.of(p); !math.IsNaN(value) {
				text = strconv.FormatFloat(value, 'g', -1, 64)
				event.Scalars[s.tag] = value
			}
			row = append(row, text)
		}
		rows, points = append(rows, row), append(points, event)
	}
	var text bytes.Buffer
	if err := csv.NewWriter(&text).WriteAll(rows); err != nil {
		return err
	}
	if err := atomicfile.WriteBytes(r.path(MetricsFile), text.Bytes()); err != nil {
		return err
	}
	return atomicfile.WriteBytes(r.path(EventsFile), tensorboard.Encode(points))
}

// plots draws the losses, the entropy of the targets and the diagnostics.
func (r *run) plots() figures.CurvesRow {
	row := figures.CurvesRow{{X: "step", Y: "loss"}, {X: "step", Y: "entropy of targets (nats)"}, {X: "step", Y: "effective rank"}, {X: "step", Y: "held-out images"}}
	for _, s := range r.series() {
		for _, p := range r.state.Curve {
			value := s.of(p)
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

// report is what the page shows.
type report struct {
	Title, Command, Settings   string
	Images, Init, Naming       string
	Steps, BestStep, Held      int
	Classes, Queries           int
	Chance                     string
	BestBy, Rule               string // What makes an encoder the best, in two words and in a sentence.
	Damage                     string // Empty if training has damaged nothing.
	DamageStep                 int
	NoInformation              string
	HasBest                    bool
	Rows                       []reportRow
	Curves, Patches, Matches   template.URL
	Skipped                    []string
	SkippedCount, MoreSkipped  int
	EncoderFile, BestFile, Out string
}

// report writes the page. It depends on the run alone, not on how often it was interrupted.
func (r *run) report() error {
	v := r.verdict()
	p := report{
		Title: r.Folders.Images, Command: r.about.Command, Images: r.about.Images, Init: r.about.Init, Naming: string(r.naming), Steps: r.config.Steps,
		Held: r.images.held.Len(), Classes: v.classes, Queries: v.queries, EncoderFile: EncoderFile, BestFile: BestFile, Out: r.Out,
		Chance: fmt.Sprintf("%.1f %%", 100/float64(max(v.classes, 1))),
	}
	p.BestBy, p.Rule = v.rule(r.state.Curve)
	settings, err := json.MarshalIndent(r.config, "", "  ")
	if err != nil {
		return err
	}
	p.Settings = string(settings)
	r.fillVerdict(&p)
	skipped := append(append([]string{}, r.images.Skipped...), r.state.Skipped...)
	p.SkippedCount, p.Skipped = len(skipped), skipped[:min(len(skipped), shownSkipped)]
	p.MoreSkipped = p.SkippedCount - len(p.Skipped)
	if p.Curves, err = page.Image(r.plots()); err != nil {
		return err
	}
	viewer, err := features.NewViewer(r.backend, r.config, r.about.Size, r.images.held, min(shownImages, r.images.held.Len()))
	if err != nil {
		return err
	}
	encoders := []features.NamedEncoder{{Name: "before", File: r.path(InitialFile)}, {Name: "after", File: r.path(EncoderFile)}}
	patches, err := viewer.Components(encoders...)
	if err != nil {
		return err
	}
	if p.Patches, err = page.Image(patches); err != nil {
		return err
	}
	matches, err := viewer.Correspondences(encoders...)
	if err != nil {
		return err
	}
	if p.Matches, err = page.Image(matches); err != nil {
		return err
	}
	return page.Write(r.path(ReportFile), reportTemplate, p)
}

// fillVerdict says whether training has damaged the encoder, and compares its diagnostics.
func (r *run) fillVerdict(p *report) {
	v, points := r.verdict(), measured(r.state.Curve)
	last := points[len(points)-1]
	best, _, ok := v.best(r.state.Curve)
	p.HasBest, p.BestStep = ok, best.Step
	for _, point := range points[1:] {
		if p.Damage = v.damage(r.state.Curve, point); p.Damage != "" {
			p.DamageStep = point.Step
			break
		}
	}
	if bound := math.Log(float64(r.config.PatchHead.OutDim)); last.PatchEntropy > 0.99*bound {
		p.NoInformation = fmt.Sprintf("%.3f of at most %.3f", last.PatchEntropy, bound)
	}
	for _, at := range tableOrder[len(diagnostics)-len(r.diagnostics()):] {
		d := diagnostics[at]
		row := reportRow{Name: d.name, Meaning: d.meaning, Initial: fmt.Sprintf(d.shown, d.of(*points[0].Diagnostics)), Last: fmt.Sprintf(d.shown, d.of(*last.Diagnostics))}
		if d.column == "effective_rank" {
			row.Meaning = fmt.Sprintf(d.meaning, r.meter.extractor.ViT.Dim)
		}
		if ok {
			row.Best = fmt.Sprintf(d.shown, d.of(*best.Diagnostics))
		}
		p.Rows = append(p.Rows, row)
	}
}

// export writes the encoder of the online branch under the names that it came in.
func (r *run) export(file string) error {
	vit, store, scope := r.trainer.Encoder(sccore.Online)
	return weights.ExportAs(r.path(file), r.naming, store, scope, vit, nil, map[string]string{
		"format": "pt", "architecture": vit.Name, "positions": string(vit.Positions), "step": strconv.Itoa(r.trainer.Done()),
	})
}

// finish writes the encoder with its card and configuration, the curves and the report.
func (r *run) finish() error {
	vit, _, _ := r.trainer.Encoder(sccore.Online)
	card := weights.Card{ViT: vit, Naming: r.naming, Preprocessing: datasets.DefaultPreprocessing(), Size: r.about.Size, Facts: []weights.Fact{
		{Name: "Trained by", Text: r.about.Command}, {Name: "From", Text: r.about.Init}, {Name: "Images", Text: r.about.Images}, {Name: "Settings", Text: string(r.about.Config)},
	}}
	for _, write := range []func() error{
		func() error { return r.export(EncoderFile) },
		func() error {
			return weights.WriteConfig(r.path(EncoderFile), r.naming, vit, card.Preprocessing, r.about.Size)
		},
		func() error { return card.Write(r.path(EncoderFile)) },
		r.writeCurves, r.report, // The report is the last file of a run.
	} {
		if err := write(); err != nil {
			return err
		}
	}
	return nil
}
