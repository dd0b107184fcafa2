package ownimages

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"math"
	"strconv"

	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/tensorboard"
	"github.com/semcon/semcon/sccore/weights"
)

// column is a number of a point: its name in metrics.csv, and its tag in TensorBoard.
type column struct {
	name, tag string
	of        func(Point) float64 // NaN if it was not measured.
}

// columns lists the numbers of a run with these settings.
func columns(c sccore.Config, classes int) []column {
	step := func(of func(Point) float64) func(Point) float64 {
		return func(p Point) float64 {
			if p.Step == 0 {
				return math.NaN()
			}
			return of(p)
		}
	}
	gauge := func(of func(Gauges) float64) func(Point) float64 {
		return func(p Point) float64 {
			if p.Gauges == nil {
				return math.NaN()
			}
			return of(*p.Gauges)
		}
	}
	all := []column{
		{"learning_rate", "step/learning_rate", step(func(p Point) float64 { return p.LearningRate })},
		{"gradient_norm", "step/gradient_norm", step(func(p Point) float64 { return p.GradientNorm })},
		{"loss", "loss/total", step(func(p Point) float64 { return p.Total })},
	}
	add := func(on bool, more ...column) {
		if on {
			all = append(all, more...)
		}
	}
	add(c.Lambdas.ImageAlignment > 0, column{"image_alignment", "loss/image_alignment", step(func(p Point) float64 { return p.ImageAlignment })})
	add(c.Lambdas.PatchAlignment > 0, column{"patch_alignment", "loss/patch_alignment", step(func(p Point) float64 { return p.PatchAlignment })})
	add(c.Lambdas.ImageConcentration > 0, column{"image_concentration", "loss/image_concentration", step(func(p Point) float64 { return p.ImageConcentration })})
	add(c.Lambdas.PatchConcentration > 0, column{"patch_concentration", "loss/patch_concentration", step(func(p Point) float64 { return p.PatchConcentration })})
	add(c.Lambdas.Prototypes > 0, column{"prototypes", "loss/prototypes", step(func(p Point) float64 { return p.Prototypes })})
	add(c.Lambdas.ImageAlignment+c.Lambdas.ImageConcentration > 0,
		column{"image_entropy", "entropy/image", step(func(p Point) float64 { return p.ImageEntropy })},
		column{"image_entropy_bound", "entropy/image_bound", step(func(Point) float64 { return math.Log(float64(c.ImageHead.OutDim)) })})
	add(c.Lambdas.PatchAlignment > 0,
		column{"patch_entropy", "entropy/patch", step(func(p Point) float64 { return p.PatchEntropy })},
		column{"patch_entropy_bound", "entropy/patch_bound", step(func(Point) float64 { return math.Log(float64(c.PatchHead.OutDim)) })})
	add(true,
		column{"effective_rank", "gauge/effective_rank", gauge(func(g Gauges) float64 { return g.Rank })},
		column{"feature_std", "gauge/feature_std", gauge(func(g Gauges) float64 { return g.Std })},
		column{"similarity", "gauge/similarity", gauge(func(g Gauges) float64 { return g.Similarity })},
		column{"cosine", "gauge/cosine", gauge(func(g Gauges) float64 { return g.Cosine })},
		column{"kept_neighbours", "gauge/kept_neighbours", gauge(func(g Gauges) float64 { return g.Kept })})
	add(classes > 0, column{"knn_accuracy", "gauge/knn_accuracy", gauge(func(g Gauges) float64 { return g.KNN })})
	return all
}

// gauged writes what is known after a point: the curves and, if it is the best yet, the encoder.
func (r *run) gauged(p Point) error {
	if p.Gauges == nil {
		return nil
	}
	r.Say(r.describe(p))
	if err := r.writeCurves(); err != nil {
		return err
	}
	if r.state.Curve.improved(r.Start.Init != "", len(r.images.classes), r.queries()) {
		return r.export(BestFile)
	}
	return nil
}

// queries is the number of images that the k-NN accuracy is measured on.
func (r *run) queries() int {
	if r.images.classes == nil {
		return 0
	}
	return r.images.queries.Len()
}

// describe says the gauges of the last point in a line, and in another one what they warn of, which later lines only mention.
func (r *run) describe(p Point) string {
	g := *p.Gauges
	line := fmt.Sprintf("step %d: effective rank %.1f, similarity %.3f, %.0f %% of neighbours kept", p.Step, g.Rank, g.Similarity, 100*g.Kept)
	if p.Step > 0 {
		line += fmt.Sprintf(", loss %.3f", p.Total)
	}
	if p.PatchEntropy > 0 {
		line += fmt.Sprintf(", target entropy %.2f of at most %.2f", p.PatchEntropy, math.Log(float64(r.config.PatchHead.OutDim)))
	}
	if r.images.classes != nil {
		line += fmt.Sprintf(", k-NN %.1f %%", g.KNN)
	}
	pretrained := r.Start.Init != ""
	damage := g.Damage(*r.state.Curve[0].Gauges, pretrained)
	if damage == "" {
		return line
	}
	if step, warned := r.state.Curve.damagedBefore(damage, pretrained); warned {
		return line + fmt.Sprintf("; damaged, as at step %d", step)
	}
	line += "\nwarning: " + damage + "; a lower learning rate (--set rate=…) may keep them"
	return line
}

// writeCurves writes metrics.csv and the events.
func (r *run) writeCurves() error {
	all := columns(r.config, len(r.images.classes))
	header := []string{"step"}
	for _, c := range all {
		header = append(header, c.name)
	}
	rows, points := [][]string{header}, []tensorboard.Point{}
	for _, p := range r.state.Curve {
		row := []string{strconv.Itoa(p.Step)}
		// The clock is the step: the file must not depend on the machine's speed.
		event := tensorboard.Point{Step: int64(p.Step), WallTime: float64(p.Step), Scalars: map[string]float64{}}
		for _, c := range all {
			value, text := c.of(p), ""
			if !math.IsNaN(value) {
				text = strconv.FormatFloat(value, 'g', -1, 64)
				event.Scalars[c.tag] = value
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

// export writes the encoder of the online branch under the names that it came in.
func (r *run) export(file string) error {
	vit, store, scope := r.trainer.Encoder(sccore.Online)
	return weights.ExportAs(r.path(file), r.naming, store, scope, vit, nil, map[string]string{
		"format": "pt", "architecture": vit.Name, "positions": string(vit.Positions), "step": strconv.Itoa(r.trainer.Done()),
	})
}

// finish writes the encoder with its card and configuration, the curves and the report.
func (r *run) finish() error {
	if err := r.export(EncoderFile); err != nil {
		return err
	}
	vit, _, _ := r.trainer.Encoder(sccore.Online)
	if err := weights.WriteConfig(r.path(EncoderFile), r.naming, vit, datasets.DefaultPreprocessing(), r.about.Size); err != nil {
		return err
	}
	card := weights.Card{ViT: vit, Naming: r.naming, Preprocessing: datasets.DefaultPreprocessing(), Size: r.about.Size, Facts: []weights.Fact{
		{Name: "Trained by", Text: r.about.Command}, {Name: "From", Text: r.about.Init}, {Name: "Images", Text: r.about.Images}, {Name: "Settings", Text: string(r.about.Config)},
	}}
	if err := card.Write(r.path(EncoderFile)); err != nil {
		return err
	}
	if err := r.writeCurves(); err != nil {
		return err
	}
	return r.report()
}
