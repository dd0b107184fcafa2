package video

import (
	"context"
	"fmt"
	"time"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/study"
)

// number is what a cell leaves, without its value.
func number(c study.Cell[Config]) study.Number {
	p := c.Config.Propagation
	return study.Number{
		Row: c.Config.Encoder.Row, Column: titles[c.Dataset], Metric: "J&F", Unit: "%",
		Protocol: fmt.Sprintf("label propagation of DINO: first and %d previous frames, shorter side %d, top %d within %d patches, temperature %g; "+
			"J and F at the annotation's size, mean over objects, first and last frame left out, void is background",
			p.PreviousFrames, p.ShortSide, p.K, p.Radius, p.Temperature),
	}
}

// run tracks the objects of all videos with a cell's encoder and records how well.
func run(r *study.Run[Config, Videos]) error {
	began, frames := time.Now(), 0
	var objects []metrics.JF
	err := follow(r.Context, r.Backend(), r.Cell, r.Data.All, func(v datasets.Video, found [][]uint8) error {
		measured, err := evaluation.MeasureVideo(v, found)
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

// follow tracks the objects of each video with a cell's encoder.
func follow(
	ctx context.Context, b compute.Backend, c study.Cell[Config], videos []datasets.Video, found func(v datasets.Video, masks [][]uint8) error,
) error {
	vit, store, err := c.Config.Encoder.Load(c.Seed)
	if err != nil {
		return err
	}
	defer store.Finalize()
	tracker, err := c.Config.Propagation.NewTracker(b, store, vit.PatchSize, func(scope *model.Scope, images *graph.Node) *graph.Node {
		return vit.Tokens(scope, images).Patches
	})
	if err != nil {
		return err
	}
	defer tracker.Close()
	for _, v := range videos {
		masks, err := tracker.Track(ctx, v)
		if err == nil {
			err = found(v, masks)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
