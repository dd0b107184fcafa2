package ownimages

import (
	"bytes"
	"cmp"
	"embed"
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
	"github.com/gomlx/compute"
	"github.com/samber/lo"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/figures/features"
	"github.com/semcon/semcon/figures/page"
	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/settings"
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
	of          func(Point) float64 // NaN where it was not measured.
}

// series lists the numbers of the run in the order of metrics.csv. k-NN accuracy needs class folders.
func (r *run) series() (all []series) {
	c := r.config
	step := func(column, tag string, plot int, title string, of func(Point) float64) {
		all = append(all, series{column, tag, plot, title, func(p Point) float64 { return lo.Ternary(p.Step > 0, of(p), math.NaN()) }})
	}
	step("learning_rate", "step/learning_rate", notPlotted, "", func(p Point) float64 { return p.LearningRate })
	step("gradient_norm", "step/gradient_norm", notPlotted, "", func(p Point) float64 { return p.GradientNorm })
	step("loss", "loss/total", plotLosses, "total", func(p Point) float64 { return p.Total })
	for _, loss := range sccore.Losses {
		if loss.Lambda(c.Lambdas) > 0 {
			step(loss.Name, "loss/"+loss.Name, plotLosses, loss.Title, func(p Point) float64 { return loss.Value(p.StepMetrics) })
		}
	}
	if c.Lambdas.ImageAlignment+c.Lambdas.ImageConcentration > 0 {
		step("image_entropy", "entropy/image", plotEntropies, "images", func(p Point) float64 { return p.ImageEntropy })
		step("image_entropy_bound", "entropy/image_bound", notPlotted, "", func(Point) float64 { return math.Log(float64(c.ImageHead.OutDim)) })
	}
	if c.Lambdas.PatchAlignment > 0 {
		step("patch_entropy", "entropy/patch", plotEntropies, "patches", func(p Point) float64 { return p.PatchEntropy })
		step("patch_entropy_bound", "entropy/patch_bound", plotEntropies, "at most, ln K", func(Point) float64 { return r.entropyBound() })
	}
	gauge := func(column string, plot int, title string, of func(*Diagnostics) float64) {
		all = append(all, series{column, "gauge/" + column, plot, title, func(p Point) float64 {
			if p.Diagnostics == nil {
				return math.NaN()
			}
			return of(p.Diagnostics)
		}})
	}
	gauge("effective_rank", plotRank, "patch features", func(d *Diagnostics) float64 { return d.Rank })
	gauge("feature_std", notPlotted, "", func(d *Diagnostics) float64 { return d.Std })
	gauge("similarity", plotSimilarities, "similarity", func(d *Diagnostics) float64 { return d.Similarity })
	gauge("cosine", plotSimilarities, "cosine", func(d *Diagnostics) float64 { return d.Cosine })
	gauge("kept_neighbours", plotSimilarities, "neighbours kept", func(d *Diagnostics) float64 { return d.Kept })
	if r.images.classes != nil {
		gauge("knn_accuracy", plotSimilarities, "k-NN accuracy", func(d *Diagnostics) float64 { return d.KNN })
	}
	return all
}

// entropyBound is the largest entropy of the targets of patches, in nats.
func (r *run) entropyBound() float64 { return math.Log(float64(r.config.PatchHead.OutDim)) }

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
	config := try.E1(json.MarshalIndent(r.config, "", "  "))
	all, points := r.series(), []tensorboard.Point{}
	rows := [][]string{append([]string{"step"}, lo.Map(all, func(s series, _ int) string { return s.column })...)}
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
		if p.Step == 0 {
			event.Texts = map[string]string{"settings": "```json\n" + string(config) + "\n```"}
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

// report writes the page. It depends on the run alone, not on how often it was interrupted.
func (r *run) report() (err error) {
	defer try.Handle(&err)
	const shownImages, shownSkipped = 10, 100
	v, curve, points := r.verdict, r.state.Curve, measured(r.state.Curve)
	last := points[len(points)-1]
	best, _, ok := v.best(curve)
	bestBy, rule := v.rule(curve)
	skipped := slices.Concat(r.images.Skipped, r.state.Skipped)
	shown := min(len(skipped), shownSkipped)
	content := map[string]any{
		"Run": r.about, "Title": strings.Join(r.Folders.Images, ", "), "Out": r.Out, "Steps": r.config.Steps, "Done": last.Step, "Settings": try.E1(settings.List(r.config)),
		"Held": r.images.held.Len(), "Classes": v.classes, "Queries": v.queries, "Chance": fmt.Sprintf("%.1f %%", 100/float64(max(v.classes, 1))),
		"HasBest": ok, "BestStep": best.Step, "BestBy": bestBy, "Rule": rule, "Curves": try.E1(page.Image(r.plots())),
		"Measured": []*Diagnostics{points[0].Diagnostics, best.Diagnostics, last.Diagnostics}, "Dim": r.trainer.Frozen.ViT.Dim,
		"SkippedCount": len(skipped), "Skipped": skipped[:shown], "MoreSkipped": len(skipped) - shown,
	}
	if damaged, found := lo.Find(points[1:], func(p Point) bool { return v.damage(curve, p) != "" }); found {
		content["Damage"], content["DamageStep"] = v.damage(curve, damaged), damaged.Step
	}
	if bound := r.entropyBound(); last.PatchEntropy > 0.99*bound {
		content["NoInformation"] = fmt.Sprintf("%.3f of at most %.3f", last.PatchEntropy, bound)
	}
	viewer := try.E1(features.NewViewer(r.backend, r.config, r.about.Size, r.images.held, min(shownImages, r.images.held.Len())))
	before, after := features.NamedEncoder{Name: "before", File: r.path(InitialFile)}, features.NamedEncoder{Name: "after", File: r.path(EncoderFile)}
	patches := try.E1(viewer.Components(before, after))
	_, picture := try.E2(figures.Render(patches))
	try.E(atomicfile.WriteBytes(r.path(fmt.Sprintf(pictures, last.Step)), picture))
	content["Patches"], content["Matches"] = try.E1(page.Image(patches)), try.E1(page.Image(try.E1(viewer.Correspondences(before, after))))
	return page.Write(r.path(ReportFile), reportTemplate, content)
}

// export writes the encoder of the online branch under the names that it came in.
func (r *run) export(file string) error {
	vit, store, scope := r.trainer.Encoder(sccore.Online)
	return weights.Export(r.path(file), r.naming, store, scope, vit, nil, map[string]string{
		"format": "pt", "architecture": vit.Name, "positions": string(vit.Positions), "step": strconv.Itoa(r.trainer.Done()),
	})
}

// write writes the encoder as it is, with its card and configuration, the curves and the report.
func (r *run) write() (err error) {
	defer try.Handle(&err)
	vit, _, _ := r.trainer.Encoder(sccore.Online)
	size := r.config.Views.GlobalCropSize
	card := weights.Card{ViT: vit, Naming: r.naming, Preprocessing: datasets.DefaultPreprocessing(), Size: size, Measured: r.about.Size, Facts: []weights.Fact{
		{Name: "Trained by", Text: r.about.Command}, {Name: "Step", Text: fmt.Sprintf("%d of %d", r.trainer.Done(), r.config.Steps)}, {Name: "From", Text: r.about.Init}, {Name: "Images", Text: r.about.Images}, {Name: "Settings", Text: string(r.about.Config)},
	}}
	file := r.path(EncoderFile)
	try.E(r.export(EncoderFile))
	return cmp.Or(weights.WriteConfig(file, r.naming, vit, card.Preprocessing, size), card.Write(file), r.report(), r.writeCurves())
}

// Records returns the last value of each column of a run's metrics as a record, so that runs can be compared. Their seed is 0, and the run's own is a
// setting: two runs are compared whatever their seeds. The error is an [fs.ErrNotExist] if the folder holds no run.
func Records(out string) (records []study.Record, err error) {
	defer try.Handle(&err)
	content := try.E1(os.ReadFile(filepath.Join(out, datasets.RunFile)))
	var about description
	config := map[string]any{}
	if err := json.Unmarshal(content, &about); err != nil {
		return nil, fmt.Errorf("%s: %.300w", filepath.Join(out, datasets.RunFile), err)
	}
	if err := json.Unmarshal(about.Config, &config); err != nil {
		return nil, fmt.Errorf("%s: config: %.300w", filepath.Join(out, datasets.RunFile), err)
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
	config["(last step)"] = last["step"]
	shown := try.E1(json.Marshal(config))
	for column, text := range last {
		if value, err := strconv.ParseFloat(text, 64); err == nil {
			records = append(records, study.Record{
				Experiment: "train", Cell: filepath.Base(out), Row: "last", Column: column, Value: value, Config: shown, ConfigHash: study.Hash(encoded),
				Data: about.Images + ", content " + about.Content, Curve: MetricsFile,
			})
		}
	}
	return records, nil
}

// ReadMetrics reads the points of a run's metrics by column; what was not measured is empty. The last line of a copy may be cut off, and is left out. The error
// names the file.
func ReadMetrics(file string) (points []map[string]string, err error) {
	defer try.Handle(&err)
	content := try.E1(os.ReadFile(file))
	rows, err := csv.NewReader(bytes.NewReader(content[:bytes.LastIndexByte(content, '\n')+1])).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return lo.Map(rows[min(1, len(rows)):], func(row []string, _ int) map[string]string {
		return lo.SliceToMapI(row, func(text string, i int) (column, value string) { return rows[0][i], text })
	}), nil
}

// NewViewer returns a viewer of photographs for an encoder. They are cropped to size pixels, a multiple of the encoder's patches; 0 is 224 or the nearest
// such multiple. The error names the file.
func NewViewer(b compute.Backend, weightsFile string, images []string, size int) (_ *features.Viewer, err error) {
	defer try.Handle(&err)
	v := try.E1(sccore.EncoderOf(weightsFile))
	try.E(weights.CheckColours(weightsFile, datasets.DefaultPreprocessing()))
	size = cmp.Or(size, v.NearestSize(224))
	set := &datasets.Images{Name: "images", Height: size, Width: size}
	for _, path := range images {
		photo := try.E1(datasets.ReadPhoto(path))
		pixels, _, err := datasets.DefaultPreprocessing().Apply(photo.Image(), size, v.PatchSize)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		set.Pixels, set.Labels = append(set.Pixels, pixels...), append(set.Labels, 0)
	}
	config := sccore.Default().Adapt(v)
	config.Prototypes, config.BlocksAfterFilter = v.Prototypes, v.BlocksAfterFilter
	viewer := try.E1(features.NewViewer(b, config, size, set, set.Len()))
	viewer.Names = images
	return viewer, nil
}

//go:embed example/*.jpg example/encoder.safetensors
var example embed.FS

// Example writes two photographs and a small encoder, trained on drawn scenes, into a folder. It serves a user who has neither. Their README.md says what they are.
func Example(folder string) (photos []string, weightsFile string, err error) {
	defer try.Handle(&err)
	for _, name := range []string{"cat.jpg", "astronaut.jpg", EncoderFile} {
		try.E(atomicfile.WriteBytes(filepath.Join(folder, name), try.E1(example.ReadFile("example/"+name))))
	}
	return []string{filepath.Join(folder, "cat.jpg"), filepath.Join(folder, "astronaut.jpg")}, filepath.Join(folder, EncoderFile), nil
}

// Show draws what an encoder makes of photographs: the principal components of patch features as colours ("pca"), where the patches of the next image are like
// the middle one of each ("nearest", for two images or more), where the patches of all images are like the ones at points of the first image ("points", if
// there are points), and the attention of [CLS] ("attention"). [NewViewer] says what size is. The error names the file.
func Show(b compute.Backend, weightsFile string, images []string, size int, points ...features.Point) (all []study.Figure, err error) {
	defer try.Handle(&err)
	viewer := try.E1(NewViewer(b, weightsFile, images, size))
	add := func(name string, figure figures.Figure) { all = append(all, study.Figure{Name: name, Figure: figure}) }
	add("pca", try.E1(viewer.Components(features.NamedEncoder{Name: "components", File: weightsFile})))
	likeness := features.NamedEncoder{Name: "likeness", File: weightsFile}
	if len(images) > 1 {
		add("nearest", try.E1(viewer.Correspondences(likeness)))
	}
	if len(points) > 0 {
		add("points", try.E1(viewer.Points(likeness, points...)))
	}
	add("attention", try.E1(viewer.Attention(weightsFile)))
	return all, nil
}
