package pretrain

import (
	"context"
	"fmt"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/study"
)

// numbers lists the numbers of a row that [measure] measures, without their values.
func numbersOf(d recipe.Data, c recipe.Config, row string) (numbers []study.Number) {
	if d.Scenes[0] == nil {
		return append(d.RecallNumbers(row), study.Number{Row: row, Column: recipe.ColumnRank, Data: ranked(d, c)})
	}
	for _, column := range []string{recipe.ColumnMIoU, recipe.ColumnKNN} {
		numbers = append(numbers, study.Number{Row: row, Column: column})
	}
	return numbers
}

// ranked identifies the pictures of the effective rank as they are preprocessed, so that numbers of crops of another kind are not compared.
func ranked(d recipe.Data, c recipe.Config) string {
	return d.Identity() + "; " + datasets.DefaultPreprocessing().Describe(c.Size)
}

// measure measures an encoder: on synthetic images by a linear probe of the patch features of scenes and by k-NN on objects, on real ones by the recall over
// patches, where there are labels, and by the effective rank of patch features.
func measure(ctx context.Context, b compute.Backend, frozen *evaluation.FeatureExtractor, data recipe.Data, c recipe.Config, seed int) ([]study.Number, error) {
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
			Column: recipe.ColumnRank, Metric: "effective rank", Value: spread.Rank, Data: ranked(data, c),
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
		{Column: recipe.ColumnMIoU, Metric: "mIoU", Unit: "%", Value: segmentation.MIoU, Protocol: c.Probe.Protocol()},
		{
			Column: recipe.ColumnKNN, Metric: "k-NN accuracy", Unit: "%", Value: metrics.Accuracy(predictions, data.Objects[1].Labels),
			Protocol: fmt.Sprintf("weighted k-NN of [CLS] features, K %d, temperature %g, cosine", c.KNN.K, c.KNN.Temperature),
		},
	}, nil
}
