package video

import (
	"fmt"
	"time"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/study"
)

// number is the number that a cell records, without its value.
func number(c study.Cell[Config]) study.Number {
	p := c.Config.Propagation
	return study.Number{
		Row: c.Config.Encoder.Row, Column: titles[c.Dataset], Metric: "J&F", Unit: "%",
		Protocol: fmt.Sprintf("label propagation of DINO: first and %d previous frames, shorter side %d, top %d within %d patches, temperature %g; "+
			"J and F at the annotation's size, mean over objects, first and last frame left out, void is background",
			p.PreviousFrames, p.ShortSide, p.K, p.Radius, p.Temperature),
	}
}

// run tracks the objects of all videos with a cell's encoder and records J&F.
func run(r *study.Run[Config, Videos]) error {
	began, frames := time.Now(), 0
	var objects []metrics.JF
	c := r.Cell.Config
	vit, store, err := c.Encoder.Load(r.Cell.Seed)
	if err != nil {
		return err
	}
	defer store.Finalize()
	err = c.Propagation.TrackAll(r.Context, r.Backend(), vit, store, r.Data.All, func(v datasets.Video, masks [][]uint8) error {
		measured, err := evaluation.MeasureVideo(v, masks)
		objects = append(objects, measured...)
		frames += v.Frames
		r.Step("%s: J&F %.1f %%", v.Name, 100*metrics.MeanJF(measured).Mean())
		return err
	})
	if err != nil {
		return err
	}
	mean := metrics.MeanJF(objects)
	n := number(r.Cell)
	n.Value = 100 * mean.Mean()
	n.Details = map[string]float64{"objects": float64(len(objects)), "frames/s": float64(frames) / time.Since(began).Seconds()}
	for name, m := range map[string]metrics.JFMeasure{"J": mean.J, "F": mean.F} {
		n.Details[name+"_mean"], n.Details[name+"_recall"], n.Details[name+"_decay"] = 100*m.Mean, 100*m.Recall, 100*m.Decay
	}
	return r.Record(n)
}
