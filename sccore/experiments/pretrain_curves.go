package experiments

import (
	"path/filepath"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore"
)

// PretrainCurves draws the course of a running stage: the loss and the effective rank of patch features against the step.
func PretrainCurves(run string, points []Point) figures.CurvesRow {
	loss, rank := figures.Series{Name: "loss"}, figures.Series{Name: "effective rank"}
	for _, p := range points {
		loss.X, loss.Y = append(loss.X, float64(p.Step)), append(loss.Y, p.Loss)
		if p.EffectiveRank > 0 {
			rank.X, rank.Y = append(rank.X, float64(p.Step)), append(rank.Y, p.EffectiveRank)
		}
	}
	return figures.CurvesRow{
		{Title: run, X: "step", Y: "loss", Series: []figures.Series{loss}},
		{X: "step", Y: "effective rank of patch features", Series: []figures.Series{rank}},
	}
}

// Gauges draws those of both stages of a recorded run, the second's steps after the first's: its losses, the entropy of its targets, and the
// effective rank of its features. The error says that there is no such run.
func (r PretrainResults) Gauges(out string, seed int) (figures.CurvesRow, error) {
	var losses, entropies, ranks []figures.Series
	add := func(all *[]figures.Series, name string, step int, value float64) {
		if value <= 0 { // Switched off.
			return
		}
		for i := range *all {
			if s := &(*all)[i]; s.Name == name {
				s.X, s.Y = append(s.X, float64(step)), append(s.Y, value)
				return
			}
		}
		*all = append(*all, figures.Series{Name: name, X: []float64{float64(step)}, Y: []float64{value}})
	}
	before := 0
	for _, stage := range []string{"first", "second"} {
		encoder, err := r.Encoder(out, seed, stage, string(sccore.Target))
		if err != nil {
			return nil, err
		}
		course, err := ReadGauges(filepath.Join(filepath.Dir(encoder), pretrainCurve))
		if err != nil {
			return nil, err
		}
		for _, g := range course {
			step := before + g.Step
			add(&losses, "image alignment", step, g.ImageAlignment)
			add(&losses, "patch alignment", step, g.PatchAlignment)
			add(&losses, "image concentration", step, g.ImageConcentration)
			add(&losses, "CoTAP", step, g.PatchConcentration)
			add(&losses, "prototypes", step, g.Prototypes)
			add(&entropies, "image targets", step, g.ImageEntropy)
			add(&entropies, "patch targets", step, g.PatchEntropy)
			if g.Patches != nil {
				add(&ranks, "patch features", step, g.Patches.Rank)
				add(&ranks, "[CLS] features", step, g.Class.Rank)
			}
		}
		if len(course) > 0 {
			before += course[len(course)-1].Step
		}
	}
	return figures.CurvesRow{
		{X: "step, both stages", Y: "loss", Series: losses},
		{X: "step, both stages", Y: "entropy of targets (nats)", Series: entropies},
		{X: "step, both stages", Y: "effective rank", Series: ranks},
	}, nil
}
