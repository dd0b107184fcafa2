package ownimages

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"math"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/figures/features"
	"github.com/semcon/semcon/figures/page"
)

// Numbers of what the report shows.
const (
	shownImages  = 10
	shownSkipped = 100
)

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
	p := report{
		Title: r.Folders.Images, Command: r.about.Command, Images: r.about.Images, Init: r.about.Init, Naming: string(r.naming), Steps: r.config.Steps,
		Held: r.images.held.Len(), Classes: len(r.images.classes), Queries: r.queries(), EncoderFile: EncoderFile, BestFile: BestFile, Out: r.Out,
	}
	p.Chance = fmt.Sprintf("%.1f %%", 100/float64(max(p.Classes, 1)))
	p.BestBy, p.Rule = r.state.Curve.rule(r.Start.Init != "", p.Classes, p.Queries)
	settings, err := json.MarshalIndent(r.config, "", "  ")
	if err != nil {
		return err
	}
	p.Settings = string(settings)
	r.fillVerdict(&p)
	skipped := append(append([]string{}, r.images.Skipped...), r.state.Skipped...)
	p.SkippedCount, p.Skipped = len(skipped), skipped[:min(len(skipped), shownSkipped)]
	p.MoreSkipped = p.SkippedCount - len(p.Skipped)
	if p.Curves, err = page.Image(r.curves()); err != nil {
		return err
	}
	config := r.config
	viewer, err := features.NewViewer(r.backend, config, r.about.Size, r.images.held, min(shownImages, r.images.held.Len()))
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

// fillVerdict says whether training has damaged the encoder, and compares its gauges.
func (r *run) fillVerdict(p *report) {
	points := r.state.Curve.gauged()
	initial, last := points[0], points[len(points)-1]
	best := last
	for i := range points {
		if r.state.Curve[:r.state.Curve.indexOf(points[i].Step)+1].improved(r.Start.Init != "", p.Classes, p.Queries) {
			best, p.BestStep, p.HasBest = points[i], points[i].Step, true
		}
	}
	for _, point := range points[1:] {
		if damage := point.Gauges.Damage(*initial.Gauges, r.Start.Init != ""); damage != "" {
			p.Damage, p.DamageStep = damage, point.Step
			break
		}
	}
	if bound := math.Log(float64(r.config.PatchHead.OutDim)); last.PatchEntropy > 0.99*bound {
		p.NoInformation = fmt.Sprintf("%.3f of at most %.3f", last.PatchEntropy, bound)
	}
	format := func(format string, of func(Gauges) float64) [3]string {
		var texts [3]string
		for i, point := range []Point{initial, best, last} {
			if i != 1 || p.HasBest {
				texts[i] = fmt.Sprintf(format, of(*point.Gauges))
			}
		}
		return texts
	}
	add := func(name, meaning string, texts [3]string) {
		p.Rows = append(p.Rows, reportRow{name, meaning, texts[0], texts[1], texts[2]})
	}
	if p.Classes > 0 {
		add("k-NN accuracy", "of held-out images, by their 20 nearest training images and the class folders", format("%.1f %%", func(g Gauges) float64 { return g.KNN }))
	}
	add("similarity", "to the initial features (linear CKA): 1 is equal up to rotation and scale, 0 is nothing in common", format("%.3f", func(g Gauges) float64 { return g.Similarity }))
	add("neighbours kept", "of the ten nearest patches of a patch, those that are the same as before", format("%.2f", func(g Gauges) float64 { return g.Kept }))
	add("cosine", "of a patch's feature with its initial one", format("%.3f", func(g Gauges) float64 { return g.Cosine }))
	add("effective rank", fmt.Sprintf("of patch features, of at most %d", r.meter.extractor.ViT.Dim), format("%.1f", func(g Gauges) float64 { return g.Rank }))
	add("spread", "of patch features: 0 when they have collapsed to a point", format("%.3f", func(g Gauges) float64 { return g.Std }))
}

// rule says what makes an encoder of the run the best.
func (c Curve) rule(pretrained bool, classes, queries int) (short, sentence string) {
	const last = "Best is the last encoder that no gauge calls damaged."
	needed := significant(max(classes, 1), max(queries, 1))
	switch {
	case classes == 0:
		return "last undamaged", "There are no class folders, so there is no k-NN accuracy. " + last
	case c.decidedByKNN(pretrained, classes, queries):
		return "by k-NN", "Best is the encoder of the highest k-NN accuracy that no gauge calls damaged."
	case needed >= 100:
		return "last undamaged", "So few held-out images cannot tell k-NN from guessing, so it does not decide. " + last
	}
	return "last undamaged", fmt.Sprintf("k-NN decides above %.1f %%, three standard errors above guessing, which no undamaged encoder reached. %s", needed, last)
}

// indexOf returns the place of a step in the curve.
func (c Curve) indexOf(step int) int {
	for i, p := range c {
		if p.Step == step {
			return i
		}
	}
	return -1
}

// curves plots the losses, the entropy of the targets and the gauges.
func (r *run) curves() figures.CurvesRow {
	var losses, entropies, ranks, similarities []figures.Series
	for _, c := range columns(r.config, len(r.images.classes)) {
		for _, p := range r.state.Curve {
			value := c.of(p)
			if math.IsNaN(value) {
				continue
			}
			switch c.name {
			case "loss", "image_alignment", "patch_alignment", "image_concentration", "patch_concentration", "prototypes":
				figures.AddPoint(&losses, names[c.name], float64(p.Step), value)
			case "image_entropy", "patch_entropy", "patch_entropy_bound":
				figures.AddPoint(&entropies, names[c.name], float64(p.Step), value)
			case "effective_rank":
				figures.AddPoint(&ranks, names[c.name], float64(p.Step), value)
			case "similarity", "cosine", "kept_neighbours":
				figures.AddPoint(&similarities, names[c.name], float64(p.Step), value)
			case "knn_accuracy":
				figures.AddPoint(&similarities, names[c.name], float64(p.Step), value/100)
			}
		}
	}
	return figures.CurvesRow{
		{X: "step", Y: "loss", Series: losses}, {X: "step", Y: "entropy of targets (nats)", Series: entropies},
		{X: "step", Y: "effective rank", Series: ranks}, {X: "step", Y: "held-out images", Series: similarities},
	}
}

// names are those of columns in plots.
var names = map[string]string{
	"loss": "total", "image_alignment": "image alignment", "patch_alignment": "patch alignment", "image_concentration": "image concentration",
	"patch_concentration": "CoTAP", "prototypes": "prototypes", "image_entropy": "images", "patch_entropy": "patches", "patch_entropy_bound": "at most, ln K",
	"effective_rank": "patch features", "similarity": "similarity", "cosine": "cosine", "kept_neighbours": "neighbours kept", "knn_accuracy": "k-NN accuracy",
}
