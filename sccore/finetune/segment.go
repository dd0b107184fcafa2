package finetune

import (
	"context"
	"fmt"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"
)

// segmentBatch is the number of crops whose logits are computed at once.
const segmentBatch = 4

// newSegmentExec returns the graph from crops and their sizes, as in [SegmentationBatch], to logits. It is compiled for each size of crops.
func newSegmentExec(b compute.Backend, store *model.Store, s Segmenter, mean, std [3]float64) (*model.Exec, error) {
	return model.NewExec(b, store, func(scope *model.Scope, pixels, sizes *Node) *Node {
		return s.infer(scope, Normalize(pixels, sizes, mean, std))
	})
}

// segmentWith returns the [Segment] of a graph for crops of whole patches. A single crop is computed alone, others in batches.
func segmentWith(exec *model.Exec, s Segmenter) Segment {
	compute := func(ctx context.Context, crops Crops) (all Logits, err error) {
		if err := ctx.Err(); err != nil {
			return all, err
		}
		if patch := s.ViT.PatchSize; crops.Height%patch != 0 || crops.Width%patch != 0 {
			return all, fmt.Errorf("crops of %d×%d pixels cannot be split into patches of %d", crops.Width, crops.Height, patch)
		}
		var sizes []int32
		for range crops.Count {
			sizes = append(sizes, int32(crops.Height), int32(crops.Width))
		}
		err = caught(func() error {
			outputs, err := exec.Call(tensors.FromFlatDataAndDimensions(crops.Pixels, crops.Count, crops.Height, crops.Width, 3),
				tensors.FromFlatDataAndDimensions(sizes, crops.Count, 2))
			if err != nil {
				return err
			}
			shape := outputs[0].Shape()
			values, err := tensors.CopyFlatData[float32](outputs[0])
			all = Logits{shape.Dim(1), shape.Dim(2), shape.Dim(3), values}
			outputs[0].MustFinalizeAll()
			return err
		})
		return all, err
	}
	return func(ctx context.Context, crops Crops) (Logits, error) {
		if crops.Count == 1 {
			return compute(ctx, crops)
		}
		return InBatches(segmentBatch, compute)(ctx, crops)
	}
}

// caught runs f and returns a panic of graph building as an error.
func caught(f func() error) (err error) {
	if panicked := exceptions.TryCatch[error](func() { err = f() }); panicked != nil {
		return panicked
	}
	return err
}
