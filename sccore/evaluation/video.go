package evaluation

import (
	"context"
	"fmt"
	"time"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/metrics"
)

// MeasureVideo compares predicted masks, [Frames][Height·Width], with the true masks of a video. It returns one J&F per object.
func MeasureVideo(v datasets.Video, predicted [][]uint8) ([]metrics.JF, error) {
	objects, err := v.Objects()
	if err != nil {
		return nil, err
	}
	var truth [][]uint8
	for i := range v.Frames {
		mask, err := v.Mask(i)
		if err != nil {
			return nil, fmt.Errorf("video %s: %w", v.Name, err)
		}
		truth = append(truth, mask)
	}
	measured, err := metrics.EvaluateJF(truth, predicted, v.Height, v.Width, objects)
	if err != nil {
		return nil, fmt.Errorf("video %s: %w", v.Name, err)
	}
	return measured, nil
}

// TrackAll tracks the objects of each video with the patch features of an encoder. It calls handle with the predicted masks of each video,
// [Frames][Height·Width].
func (p LabelPropagation) TrackAll(ctx context.Context, e *Encoder, videos []datasets.Video, handle func(v datasets.Video, masks [][]uint8) error) error {
	tracker, err := p.NewTracker(e.backend, e.store, e.ViT.PatchSize, func(scope *model.Scope, images *graph.Node) *graph.Node {
		return e.ViT.Tokens(scope.Store().Scope(e.scope), images).Patches
	})
	if err != nil {
		return err
	}
	defer tracker.Close()
	for _, v := range videos {
		masks, err := tracker.Track(ctx, v)
		if err == nil {
			err = handle(v, masks)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Protocol describes the evaluation in one line.
func (p LabelPropagation) Protocol() string {
	return fmt.Sprintf("label propagation of DINO: first and %d previous frames, shorter side %d, top %d within %d patches, temperature %g; "+
		"J and F at the annotation's size, mean over objects, first and last frame left out, void is background",
		p.PreviousFrames, p.ShortSide, p.K, p.Radius, p.Temperature)
}

// Open opens the test videos of DAVIS, or draws videos.
func (LabelPropagation) Open(s Source) (d Data, err error) {
	if s.Dataset == Synthetic {
		set := synthetic.Run(s.Seed).Videos(s.Images, s.Frames, s.Size, 1)
		return Data{Name: set.Name, ID: set.Identity, Videos: set.All}, nil
	}
	set, err := datasets.DAVIS(s.Dir, datasets.Test)
	if err != nil {
		return d, err
	}
	d.Name, d.ID = set.Name, set.Identity
	for _, place := range datasets.Spread(len(set.All), s.Images) {
		d.Videos = append(d.Videos, set.All[place])
	}
	return d, nil
}

// Measure tracks the objects of all videos and measures J&F.
func (p LabelPropagation) Measure(ctx context.Context, e *Encoder, d Data) (r Result, err error) {
	began, frames, done := time.Now(), 0, 0
	var objects []metrics.JF
	err = p.TrackAll(ctx, e, d.Videos, func(v datasets.Video, masks [][]uint8) error {
		measured, err := MeasureVideo(v, masks)
		objects, frames, done = append(objects, measured...), frames+v.Frames, done+1
		e.progress(done, len(d.Videos), "videos", "%s: J&F %.1f %%", v.Name, 100*metrics.MeanJF(measured).Mean())
		return err
	})
	if err != nil {
		return r, err
	}
	mean := metrics.MeanJF(objects)
	details := map[string]float64{"objects": float64(len(objects)), "frames/s": float64(frames) / time.Since(began).Seconds()}
	for name, m := range map[string]metrics.JFMeasure{"J": mean.J, "F": mean.F} {
		details[name+"_mean"], details[name+"_recall"], details[name+"_decay"] = 100*m.Mean, 100*m.Recall, 100*m.Decay
	}
	r.Numbers = []Number{{Name: "jf", Metric: "J&F", Unit: "%", Value: 100 * mean.Mean(), Details: details}}
	return r, nil
}
