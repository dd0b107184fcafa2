package mainresults

import (
	"context"
	"fmt"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/study"
)

// Columns whose value is also the value of the record.
const (
	columnNearest   = "knn_Acc@1"
	columnSegmented = "linear_seg_mIoU"
)

// number is the number that a cell records, without its value.
func number(c study.Cell[Config]) study.Number {
	metric := "k-NN accuracy"
	if c.Dataset == cocoStuff {
		metric = "mIoU"
	}
	return study.Number{Row: c.Config.Encoder.Row, Column: titles[c.Dataset], Metric: metric, Unit: "%", Protocol: c.Config.Protocol(c.Dataset)}
}

// run measures a cell's encoder and records its numbers.
func run(r *study.Run[Config, Data]) error {
	encoder, err := r.Cell.Config.Encoder.Open(r.Backend(), r.Cell.Seed)
	if err != nil {
		return err
	}
	defer encoder.Close()
	n := number(r.Cell)
	if n.Details, err = r.Data.Measure(r.Context, r.Backend(), encoder.FeatureExtractor, r.Cell.Config, r.Cell.Seed); err != nil {
		return err
	}
	n.Value = n.Details[columnNearest]
	if r.Cell.Dataset == cocoStuff {
		n.Value = n.Details[columnSegmented]
	}
	if err := r.Record(n); err != nil {
		return err
	}
	r.Step("%s %.1f %%", n.Metric, n.Value)
	return nil
}

// Measure evaluates an encoder and returns the table's columns that the data allow, in percent.
func (d Data) Measure(ctx context.Context, b compute.Backend, frozen *evaluation.FeatureExtractor, c Config, seed int) (map[string]float64, error) {
	if c.Preprocessing != (datasets.Preprocessing{}) {
		frozen.Preprocessing = c.Preprocessing
	}
	numbers := map[string]float64{}
	if d.Objects[0] != nil {
		if err := d.classify(b, frozen, c, seed, numbers); err != nil {
			return nil, err
		}
	}
	var segmentation metrics.Segmentation
	var err error
	switch {
	case d.Annotated[0] != nil:
		segmentation, err = c.Segmentation.Evaluate(ctx, b, frozen, d.Annotated[0], d.Annotated[1], uint64(seed))
	case d.Scenes[0] != nil: // Background is a class.
		var scenes [2]evaluation.AnnotatedPatches
		if scenes, err = evaluation.EncodeScenes(frozen, d.Scenes, c.Size); err == nil {
			segmentation, err = c.Patch.Evaluate(b, scenes[0], scenes[1], 1+d.Classes, uint64(seed))
		}
	default:
		return numbers, nil
	}
	numbers[columnSegmented], numbers["linear_seg_Acc"] = segmentation.MIoU, segmentation.Accuracy
	return numbers, err
}

// classify adds the accuracies of classifying [CLS] features.
func (d Data) classify(b compute.Backend, frozen *evaluation.FeatureExtractor, c Config, seed int, numbers map[string]float64) error {
	class, err := evaluation.EncodeObjects(frozen, d.Objects, c.Size)
	if err != nil {
		return err
	}
	nearest, err := c.KNN.Rank(b, class[0], d.Labels[0], d.Classes, class[1], 5)
	if err != nil {
		return err
	}
	linear, err := c.Class.Rank(b, class[0], d.Labels[0], d.Classes, class[1], 5, uint64(seed))
	if err != nil {
		return err
	}
	for _, k := range []int{1, 5} {
		numbers[fmt.Sprintf("knn_Acc@%d", k)] = metrics.TopKAccuracy(nearest, d.Labels[1], k)
		numbers[fmt.Sprintf("linear_cls_Acc@%d", k)] = metrics.TopKAccuracy(linear, d.Labels[1], k)
	}
	return nil
}
