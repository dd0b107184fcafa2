package evaluation

import (
	"context"
	"fmt"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
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

// TrackAll tracks the objects of each video with the patch features of a transformer, whose weights are at the store's root. It calls handle with the
// predicted masks of each video, [Frames][Height·Width].
func (p LabelPropagation) TrackAll(
	ctx context.Context, b compute.Backend, vit encoder.ViT, store *model.Store, videos []datasets.Video, handle func(v datasets.Video, masks [][]uint8) error,
) error {
	tracker, err := p.NewTracker(b, store, vit.PatchSize, func(scope *model.Scope, images *graph.Node) *graph.Node {
		return vit.Tokens(scope, images).Patches
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
