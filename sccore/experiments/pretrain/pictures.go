package pretrain

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dsnet/try"
	"github.com/gomlx/compute"
	"github.com/samber/lo"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/figures/features"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/study"
)

// panels are the plots of a run that is trained.
type panels figures.CurvesRow

// add adds a point to a series of a panel, unless it is 0: what is switched off is 0.
func (p panels) add(panel int, name string, step int, value float64) {
	if value > 0 {
		figures.AddPoint(&p[panel].Series, name, float64(step), value)
	}
}

// drawn leaves out the panels from one on that have nothing to show.
func (p panels) drawn(optional int) figures.CurvesRow {
	empty := func(c figures.Curves) bool { return len(c.Series) == 0 }
	return append(figures.CurvesRow(p[:optional:optional]), slices.DeleteFunc(slices.Clone(figures.CurvesRow(p[optional:])), empty)...)
}

// Curves plots a running stage against the step: the loss, the effective rank of patch features and, with labels, their variance within and between classes.
func Curves(run string, points []study.Point) figures.CurvesRow {
	row := panels{
		{Title: run, X: "step", Y: "loss"}, {X: "step", Y: "effective rank of patch features"}, {X: "step", Y: "variance of patch features"}, {X: "step", Y: "%"},
	}
	for _, p := range points {
		figures.AddPoint(&row[0].Series, "loss", float64(p.Step), p.Loss)
		row.add(1, "effective rank", p.Step, p.EffectiveRank)
		row.add(2, "within classes", p.Step, p.Within)
		row.add(2, "between classes", p.Step, p.Between)
		if p.Evaluated && p.MIoU > 0 {
			figures.AddPoint(&row[3].Series, "k-NN accuracy", float64(p.Step), p.KNN)
			figures.AddPoint(&row[3].Series, "linear mIoU", float64(p.Step), p.MIoU)
		}
	}
	return row.drawn(2)
}

// BothStages plots both stages of a recorded run, one after the other: the losses, the entropy of the targets, the effective rank of features and, with
// labels, the variance of patch features within and between classes. Where the run has measured them, it adds evaluations, each loss's share of the
// gradient, and the precision of correspondences. A run that starts from a file has the second stage alone. A run without records is an error.
func BothStages(r study.Results, out string, seed int) (_ figures.CurvesRow, err error) {
	defer try.Handle(&err)
	stages := lo.Ternary(r.FromFile(), []string{"second"}, []string{"first", "second"})
	x := lo.Ternary(len(stages) > 1, "step, both stages", "step, second stage")
	row := panels{
		{Title: "training" + figures.OnImages[try.E1(trained(r, seed)).Kind], X: x, Y: "loss"}, {X: x, Y: "entropy of targets (nats)"}, {X: x, Y: "effective rank"},
		{X: x, Y: "variance of patch features"}, {X: x, Y: "%"}, {X: x, Y: "share of the gradient (%)"}, {X: x, Y: "precision of correspondences (%)"},
	}
	before := 0
	for _, stage := range stages {
		encoder := try.E1(Encoder(r, out, seed, stage, string(sccore.Target)))
		curve := try.E1(study.ReadCurve[sccore.StepMetrics](filepath.Join(filepath.Dir(encoder), recipe.CurveFile)))
		for _, m := range curve {
			step := before + m.Step
			for _, loss := range sccore.Losses {
				row.add(0, loss.Title, step, loss.Value(m))
				row.add(5, loss.Title, step, 100*m.Evaluated["gauges/share_"+loss.Name])
			}
			row.add(1, "image targets", step, m.ImageEntropy)
			row.add(1, "patch targets", step, m.PatchEntropy)
			row.add(2, "evaluated patch features", step, m.Evaluated["spread/rank"])
			if m.Patches != nil {
				row.add(2, "patch features", step, m.Patches.Rank)
				row.add(2, "[CLS] features", step, m.Class.Rank)
			}
			if m.Classes != nil {
				row.add(3, "within classes", step, m.Classes.Within)
				row.add(3, "between classes", step, m.Classes.Between)
			}
			row.add(4, "k-NN accuracy", step, m.Evaluated["knn/accuracy"])
			row.add(4, "linear mIoU", step, m.Evaluated["probe/miou"])
			for _, name := range slices.Sorted(maps.Keys(m.Evaluated)) { // What the setting evaluate names.
				if evaluator, _, _ := strings.Cut(name, "/"); !slices.Contains([]string{"knn", "probe", "spread", "gauges"}, evaluator) {
					row.add(4, name, step, m.Evaluated[name])
				}
			}
			for _, top := range []string{"1", "5", "10"} {
				row.add(6, "top "+top+" %", step, m.Evaluated["gauges/precision_top"+top])
			}
		}
		if len(curve) > 0 {
			before += curve[len(curve)-1].Step
		}
	}
	return row.drawn(3), nil
}

// drawn draws both stages of the run with the lowest seed.
func drawn(results study.Results, from study.FigureSources, all *study.Drawn) {
	for _, column := range []string{recipe.ColumnMIoU, recipe.ColumnRank} { // With labels, and without.
		if records := results.Of(recipe.RowMethod, column); len(records) > 0 {
			stages, err := BothStages(results, from.Out, records[0].Seed)
			caption := lo.Ternary(results.FromFile(), "The second stage of training of seed %d, which starts from a file.", "Both stages of training of seed %d, one after the other.")
			all.Add(stages, err, fmt.Sprintf(caption, records[0].Seed), "stages")
			break
		}
	}
}

// Intermediates are what the step after the last one of a recorded run's second stage computes, which [features.Framework] draws. They need the run's images,
// below the data folder dir, and its last checkpoint below out.
func Intermediates(ctx context.Context, r study.Results, b compute.Backend, out, dir string, seed int) (_ sccore.Intermediates, err error) {
	defer try.Handle(&err)
	record := try.E1(trained(r, seed))
	var config recipe.Config
	try.E(record.DecodeConfig(&config))
	data := try.E1(recipe.Open(study.Options{Profile: r.Profile, Data: dir}, config, seed))
	dir = filepath.Dir(recipe.EncoderFile(out, record, "second"))
	if config.Second.Lambdas.ImageConcentration > 0 {
		path := filepath.Join(filepath.Dir(dir), recipe.NeighboursFile)
		data.Train.Neighbours = try.E1(data.Neighbours(path, seed, config).Find(ctx, b, nil))
	}
	trainer := try.E1(sccore.NewTrainer(b, data.Train, config.Second))
	defer trainer.Close()
	try.E1(trainer.Resume(filepath.Join(dir, recipe.FinalFile)))
	return trainer.Intermediates(ctx)
}

// NewViewer returns a viewer of the first count scenes of a profile's data, at least 2: synthetic test scenes, or the scenes of the data folder dir.
func NewViewer(b compute.Backend, profile study.Profile, dir string, count int) (_ *features.Viewer, err error) {
	defer try.Handle(&err)
	config := recipe.ProfileConfig(profile, dir != "")
	config.Shares, config.Recall = 1, recipe.Recall{} // It measures nothing.
	config.Images = min(config.Images, max(count, 1)) // The first images that are drawn do not depend on their number.
	data := try.E1(recipe.Open(study.Options{Profile: profile, Data: dir}, config, 0))
	scenes := cmp.Or(data.Train.Scenes, data.Train.Objects) // The photographs of real are no scenes and objects apart.
	if data.Scenes[1] != nil {
		scenes = data.Scenes[1].Images
	}
	return features.NewViewer(b, config.Second, config.Size, scenes, count)
}
