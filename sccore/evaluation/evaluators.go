package evaluation

import (
	"context"
	"iter"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/knn"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/train"
)

// The evaluators below run during a training, every given number of steps; 0 turns them off. Their extractor uses the store of the encoder that is
// trained. They only read its weights, so a run ends with the same bytes with and without them.

// KNNEvaluator evaluates [CLS] features by k-NN: "knn/accuracy" is the accuracy on test images, in percent, with the training images as the bank.
// Pictures are resized to size pixels, see [ImagesOf].
func KNNEvaluator(every int, b compute.Backend, extractor *FeatureExtractor, classifier knn.Classifier, images [2]*datasets.Images, size int) train.Evaluator {
	return train.Evaluator{Name: "knn", Every: every, Evaluate: func(ctx context.Context) (map[string]float64, error) {
		var features [2]*tensors.Tensor
		for i, set := range images {
			encoded, err := encodeWhile(ctx, extractor, set, size, set.Len(), false)
			if err != nil {
				return nil, err
			}
			features[i] = tensors.FromFlatDataAndDimensions(encoded.Class, set.Len(), encoded.Dim)
			defer features[i].FinalizeAll()
		}
		predictions, err := classifier.Predict(b, features[0], images[0].Labels, len(images[0].Classes), features[1])
		if err != nil {
			return nil, err
		}
		return map[string]float64{"accuracy": metrics.Accuracy(predictions, images[1].Labels)}, nil
	}}
}

// PatchProbeEvaluator evaluates patch features by a linear probe: "probe/miou" is the mIoU on test scenes, in percent. The seed draws the patches of
// the probe's steps, the same ones at each evaluation.
func PatchProbeEvaluator(every int, b compute.Backend, extractor *FeatureExtractor, probe PatchProbe, scenes [2]*synthetic.Set, size int, seed uint64) train.Evaluator {
	return train.Evaluator{Name: "probe", Every: every, Evaluate: func(ctx context.Context) (map[string]float64, error) {
		var annotated [2]AnnotatedPatches
		for i, set := range scenes {
			encoded, err := encodeWhile(ctx, extractor, set.Images, size, set.Len(), true)
			if err != nil {
				return nil, err
			}
			annotated[i] = annotate(encoded, set)
		}
		result, err := probe.Evaluate(b, annotated[0], annotated[1], 1+len(scenes[0].Classes), seed)
		if err != nil {
			return nil, err
		}
		return map[string]float64{"miou": result.MIoU}, nil
	}}
}

// SpreadEvaluator measures how much of their space the patch features of the first n images use: "spread/std" and "spread/rank", see
// [metrics.Spread]. The images need no labels.
func SpreadEvaluator(every int, extractor *FeatureExtractor, images datasets.Source, size, n int) train.Evaluator {
	return train.Evaluator{Name: "spread", Every: every, Evaluate: func(ctx context.Context) (map[string]float64, error) {
		encoded, err := encodeWhile(ctx, extractor, images, size, n, true)
		if err != nil {
			return nil, err
		}
		spread, err := metrics.MeasureSpread(tensors.FromFlatDataAndDimensions(encoded.Patches, len(encoded.Patches)/encoded.Dim, encoded.Dim))
		if err != nil {
			return nil, err
		}
		return map[string]float64{"std": spread.Std, "rank": spread.Rank}, nil
	}}
}

// encodeWhile is [Encode] until ctx ends.
func encodeWhile(ctx context.Context, extractor *FeatureExtractor, source datasets.Source, size, n int, patches bool) (Encoded, error) {
	images := func(yield func(Image, error) bool) {
		for image, err := range ImagesOf(source, extractor.Preprocessing, size, n, extractor.Skipped) {
			if err == nil {
				err = ctx.Err()
			}
			if !yield(image, err) || err != nil {
				return
			}
		}
	}
	return encode(extractor, iter.Seq2[Image, error](images), patches)
}
