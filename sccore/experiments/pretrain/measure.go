package pretrain

import (
	"context"
	"fmt"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/train"
)

// numbers lists the numbers of a row that [measure] measures, without their values.
func (d Data) numbers(c Config, row string) (numbers []study.Number) {
	if d.Scenes[0] == nil {
		return append(d.RecallNumbers(row), study.Number{Row: row, Column: ColumnRank, Data: d.ranked(c)})
	}
	for _, column := range []string{ColumnMIoU, ColumnKNN} {
		numbers = append(numbers, study.Number{Row: row, Column: column})
	}
	return numbers
}

// ranked identifies the pictures of the effective rank as they are preprocessed, so that numbers of crops of another kind are not compared.
func (d Data) ranked(c Config) string {
	return d.identity + "; " + datasets.DefaultPreprocessing().Describe(c.Size)
}

// measure measures an encoder: on synthetic images by a linear probe of the patch features of scenes and by k-NN on objects, on real ones by the recall over
// patches, where there are labels, and by the effective rank of patch features.
func measure(ctx context.Context, b compute.Backend, frozen *evaluation.FeatureExtractor, data Data, c Config, seed int) ([]study.Number, error) {
	if data.Scenes[0] == nil {
		features, err := evaluation.Encode(frozen, data.Train.Scenes, c.Size, 256, true)
		if err != nil {
			return nil, err
		}
		spread, err := metrics.MeasureSpread(tensors.FromFlatDataAndDimensions(features.Patches, len(features.Patches)/features.Dim, features.Dim))
		if err != nil {
			return nil, err
		}
		numbers, err := data.MeasureRecall(ctx, b, frozen, c.Recall, c.Probe, seed)
		return append(numbers, study.Number{
			Column: ColumnRank, Metric: "effective rank", Value: spread.Rank, Data: data.ranked(c),
			Protocol: "patch features of the first scenes, " + datasets.DefaultPreprocessing().Describe(c.Size),
		}), err
	}
	annotated, err := evaluation.EncodeScenes(frozen, data.Scenes, c.Size)
	if err != nil {
		return nil, err
	}
	class, err := evaluation.EncodeObjects(frozen, [2]datasets.Source{data.Objects[0].Images, data.Objects[1].Images}, c.Size)
	if err != nil {
		return nil, err
	}
	classes := len(data.Objects[0].Classes)
	segmentation, err := c.Probe.Evaluate(b, annotated[0], annotated[1], 1+classes, uint64(seed))
	if err != nil {
		return nil, err
	}
	predictions, err := c.KNN.Predict(b, class[0], data.Objects[0].Labels, classes, class[1])
	if err != nil {
		return nil, err
	}
	return []study.Number{
		{Column: ColumnMIoU, Metric: "mIoU", Unit: "%", Value: segmentation.MIoU, Protocol: c.Probe.Protocol()},
		{
			Column: ColumnKNN, Metric: "k-NN accuracy", Unit: "%", Value: metrics.Accuracy(predictions, data.Objects[1].Labels),
			Protocol: fmt.Sprintf("weighted k-NN of [CLS] features, K %d, temperature %g, cosine", c.KNN.K, c.KNN.Temperature),
		},
	}, nil
}

// Evaluators returns the evaluators that run during a stage's training: its gauges, every [Config].GradientsEvery steps, and those of [Evaluators].
func (s *Stage) Evaluators(b compute.Backend, data Data, c Config, seed int) []train.Evaluator {
	return append([]train.Evaluator{s.Trainer.GaugeEvaluator(c.GradientsEvery)}, Evaluators(b, s.Frozen, data, c, seed)...)
}

// Evaluators returns the evaluators of an encoder that run during training, every [Config].EvaluateEvery steps.
func Evaluators(b compute.Backend, extractor *evaluation.FeatureExtractor, data Data, c Config, seed int) []train.Evaluator {
	if data.Scenes[0] == nil {
		return []train.Evaluator{evaluation.SpreadEvaluator(c.EvaluateEvery, extractor, data.Train.Scenes, c.Size, 256)}
	}
	objects := [2]*datasets.Images{data.Objects[0].Images, data.Objects[1].Images}
	return []train.Evaluator{
		evaluation.KNNEvaluator(c.EvaluateEvery, b, extractor, c.KNN, objects, c.Size),
		evaluation.PatchProbeEvaluator(c.EvaluateEvery, b, extractor, c.Probe, data.Scenes, c.Size, uint64(seed)),
	}
}
