package experiments

import (
	"fmt"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/knn"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/progress"
)

// pretrainNumber is one measured number of an encoder.
type pretrainNumber struct {
	column, metric, unit, protocol string
	value                          float64
}

// frozenBatch is the number of images that are encoded at once.
const frozenBatch = 32

// encoded are the features of a set of images.
type encoded struct {
	dim, rows, columns int
	class, patches     []float32 // [N, dim] and [N, rows, columns, dim], the latter if asked for.
}

// encode computes the features of the first n images of a set.
func encode(frozen *evaluation.Frozen, source datasets.Source, size, n int, patches bool) (encoded, error) {
	out := encoded{dim: frozen.ViT.Dim}
	for features, err := range frozen.Features(imagesOf(source, size, n), patches) {
		if err != nil {
			return encoded{}, err
		}
		out.rows, out.columns = features.Rows, features.Columns
		out.class, out.patches = append(out.class, features.Class...), append(out.patches, features.Patches...)
	}
	return out, nil
}

// measurePretrain measures an encoder: on labelled images by a linear probe of patch features on scenes and by k-NN on objects, on others by
// the effective rank of patch features.
func measurePretrain(b compute.Backend, frozen *evaluation.Frozen, data pretrainData, config PretrainConfig, seed int) ([]pretrainNumber, error) {
	if data.scenes[0] == nil {
		features, err := encode(frozen, data.train.Scenes, config.Size, 256, true)
		if err != nil {
			return nil, err
		}
		collapse, err := metrics.MeasureCollapse(tensors.FromFlatDataAndDimensions(features.patches, len(features.patches)/features.dim, features.dim))
		return []pretrainNumber{{columnRank, "effective rank", "", "patch features of the centres of the first scenes", collapse.EffectiveRank}}, err
	}
	annotated, err := annotatedScenes(frozen, data.scenes, config.Size)
	if err != nil {
		return nil, err
	}
	class, err := classFeatures(frozen, [2]datasets.Source{data.objects[0].Images, data.objects[1].Images}, config.Size)
	if err != nil {
		return nil, err
	}
	classes := data.objects[0].Classes
	segmentation, err := config.Probe.Measure(b, annotated[0], annotated[1], 1+len(classes), uint64(seed))
	if err != nil {
		return nil, err
	}
	predictions, err := config.KNN.Predict(b, class[0], data.objects[0].Labels, len(classes), class[1])
	if err != nil {
		return nil, err
	}
	return []pretrainNumber{
		{columnMIoU, "mIoU", "%", fmt.Sprintf("linear probe of patch features, %d steps of %d patches, background a class, logits resized to the annotation", config.Probe.Steps, config.Probe.Batch), segmentation.MIoU},
		{columnKNN, "k-NN accuracy", "%", fmt.Sprintf("weighted k-NN of [CLS] features, K %d, temperature %g, cosine", config.KNN.K, config.KNN.Temperature), metrics.Accuracy(predictions, data.objects[1].Labels)},
	}, nil
}

// annotatedScenes encodes scenes for a probe of patch features, those to train it with and those for testing.
func annotatedScenes(frozen *evaluation.Frozen, scenes [2]*synthetic.Set, size int) (annotated [2]evaluation.Annotated, err error) {
	for i, s := range scenes {
		features, err := encode(frozen, s.Images, size, s.Len(), true)
		if err != nil {
			return annotated, err
		}
		annotated[i] = evaluation.Annotated{
			Rows: features.rows, Columns: features.columns, Dim: features.dim, Patches: features.patches,
			Height: s.Height, Width: s.Width, Truth: s.ClassMask,
		}
	}
	return annotated, nil
}

// classFeatures are the [CLS] features of objects for training and for testing.
func classFeatures(frozen *evaluation.Frozen, objects [2]datasets.Source, size int) (class [2]*tensors.Tensor, err error) {
	for i, o := range objects {
		features, err := encode(frozen, o, size, o.Len(), false)
		if err != nil {
			return class, err
		}
		class[i] = tensors.FromFlatDataAndDimensions(features.class, o.Len(), features.dim)
	}
	return class, nil
}

// findNeighbours finds the neighbours of the object-centric images by the [CLS] features of a stage's encoder.
func (r *pretrainRun) findNeighbours(stage *pretrainStage) (*knn.Neighbours, error) {
	objects := r.data.train.Objects
	features, err := encode(stage.frozen, objects, r.cell.config.Size, objects.Len(), false)
	if err != nil {
		return nil, err
	}
	k := min(r.cell.config.Second.Neighbours, objects.Len()-1)
	found, err := knn.Find(r.ctx, r.study.backend, features.class, features.dim, k, progress.Discard)
	if err == nil {
		found.Source = r.neighboursSource()
	}
	return found, err
}

// neighboursSource says what images were compared by what.
func (r *pretrainRun) neighboursSource() string { return r.cell.name() + ", " + r.data.identity }
