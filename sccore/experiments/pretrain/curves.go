package pretrain

import (
	"path/filepath"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/study"
)

// Curves plots a running stage against the step: the loss, the effective rank of patch features and, with labels, their variance within and between
// classes.
func Curves(run string, points []study.Point) figures.CurvesRow {
	var loss, rank, variance, evaluated []figures.Series
	for _, p := range points {
		x := float64(p.Step)
		figures.AddPoint(&loss, "loss", x, p.Loss)
		if p.EffectiveRank > 0 {
			figures.AddPoint(&rank, "effective rank", x, p.EffectiveRank)
		}
		if p.Evaluated && p.MIoU > 0 {
			figures.AddPoint(&evaluated, "k-NN accuracy", x, p.KNN)
			figures.AddPoint(&evaluated, "linear mIoU", x, p.MIoU)
		}
		if p.Within+p.Between > 0 {
			figures.AddPoint(&variance, "within classes", x, p.Within)
			figures.AddPoint(&variance, "between classes", x, p.Between)
		}
	}
	row := figures.CurvesRow{
		{Title: run, X: "step", Y: "loss", Series: loss},
		{X: "step", Y: "effective rank of patch features", Series: rank},
	}
	if variance != nil {
		row = append(row, figures.Curves{X: "step", Y: "variance of patch features", Series: variance})
	}
	if evaluated != nil {
		row = append(row, figures.Curves{X: "step", Y: "%", Series: evaluated})
	}
	return row
}

// BothStages plots both stages of a recorded run, one after the other: the losses, the entropy of the targets, the effective rank of features and, with
// labels, the variance of patch features within and between classes. Where the run has measured them, it adds evaluations, each loss's share of the
// gradient, and the precision of correspondences. A run without records is an error.
func (r Results) BothStages(out string, seed int) (figures.CurvesRow, error) {
	var losses, entropies, ranks, variances, evaluated, shares, precisions []figures.Series
	add := func(all *[]figures.Series, name string, step int, value float64) {
		if value > 0 { // 0 means that it is switched off.
			figures.AddPoint(all, name, float64(step), value)
		}
	}
	before := 0
	for _, stage := range []string{"first", "second"} {
		encoder, err := r.Encoder(out, seed, stage, string(sccore.Target))
		if err != nil {
			return nil, err
		}
		curve, err := study.ReadCurve[sccore.StepMetrics](filepath.Join(filepath.Dir(encoder), recipe.CurveFile))
		if err != nil {
			return nil, err
		}
		for _, g := range curve {
			step := before + g.Step
			add(&losses, "image alignment", step, g.ImageAlignment)
			add(&losses, "patch alignment", step, g.PatchAlignment)
			add(&losses, "image concentration", step, g.ImageConcentration)
			add(&losses, "CoTAP", step, g.PatchConcentration)
			add(&losses, "prototypes", step, g.Prototypes)
			add(&entropies, "image targets", step, g.ImageEntropy)
			add(&entropies, "patch targets", step, g.PatchEntropy)
			add(&evaluated, "k-NN accuracy", step, g.Evaluated["knn/accuracy"])
			add(&evaluated, "linear mIoU", step, g.Evaluated["probe/miou"])
			add(&ranks, "evaluated patch features", step, g.Evaluated["spread/rank"])
			for _, loss := range []struct{ title, key string }{
				{"image alignment", "image_alignment"}, {"patch alignment", "patch_alignment"}, {"image concentration", "image_concentration"}, {"CoTAP", "patch_concentration"},
			} {
				add(&shares, loss.title, step, 100*g.Evaluated["gauges/share_"+loss.key])
			}
			for _, top := range []string{"1", "5", "10"} {
				add(&precisions, "top "+top+" %", step, g.Evaluated["gauges/precision_top"+top])
			}
			if g.Patches != nil {
				add(&ranks, "patch features", step, g.Patches.Rank)
				add(&ranks, "[CLS] features", step, g.Class.Rank)
			}
			if g.Classes != nil {
				add(&variances, "within classes", step, g.Classes.Within)
				add(&variances, "between classes", step, g.Classes.Between)
			}
		}
		if len(curve) > 0 {
			before += curve[len(curve)-1].Step
		}
	}
	row := figures.CurvesRow{
		{X: "step, both stages", Y: "loss", Series: losses},
		{X: "step, both stages", Y: "entropy of targets (nats)", Series: entropies},
		{X: "step, both stages", Y: "effective rank", Series: ranks},
	}
	if len(variances) > 0 {
		row = append(row, figures.Curves{X: "step, both stages", Y: "variance of patch features", Series: variances})
	}
	for _, optional := range []figures.Curves{
		{Y: "%", Series: evaluated}, {Y: "share of the gradient (%)", Series: shares}, {Y: "precision of correspondences (%)", Series: precisions},
	} {
		if len(optional.Series) > 0 {
			optional.X = "step, both stages"
			row = append(row, optional)
		}
	}
	return row, nil
}
