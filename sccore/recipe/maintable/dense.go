package maintable

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/study"
)

// Dense measures dense features as Fig. longer_training and Fig. longer_training_full do: a linear layer and an FCN on the datasets of transfer learning, and the
// propagation of masks through the videos of DAVIS.
type Dense struct {
	Linear evaluation.SegmentationProbe `json:"linear"`
	FCN    evaluation.FCNProbe          `json:"fcn"`
	Video  evaluation.LabelPropagation  `json:"video"`
}

// FullDense is for the full profile: the sizes, batches and iterations of transfer learning, each head with one of the rates that it searches.
func FullDense() Dense {
	linear := evaluation.DefaultSegmentationProbe()
	linear.Batch, linear.Steps = 128, 1560
	fcn := evaluation.FCNProbe{SegmentationProbe: linear, Width: 256}
	fcn.Steps, fcn.LearningRate, fcn.FinalLearningRate = 6250, 1e-3, 1e-4
	return Dense{linear, fcn, evaluation.DefaultLabelPropagation()}
}

// cityscapes is the dataset whose crops and test images are larger and whose batches are smaller, as the paper prints them.
const cityscapes = "cityscapes"

// segmentations are the datasets that a linear layer and an FCN segment, in the order of the figure.
var segmentations = []string{"coco", "voc2012", "ade20k", cityscapes}

// measuring is an evaluation of dense features on its images, and the column of its first number.
type measuring struct {
	column string
	evaluation.Evaluation
	data evaluation.Data
}

// DenseColumns are the columns that [Dense] can have. The first three are of Fig. longer_training, all are of Fig. longer_training_full.
var DenseColumns = []string{
	"COCOStuff-27 FCN", "Cityscapes FCN", "DAVIS J&F", "PASCAL VOC FCN", "ADE20k FCN", "COCOStuff-27 linear", "PASCAL VOC linear", "ADE20k linear", "Cityscapes linear",
}

// openDense opens what there is of the datasets, and warns of the others.
func (d *Data) openDense(o study.Options, c Dense) error {
	open := func(dataset, column string, e evaluation.Evaluation) error {
		data, err := e.Open(evaluation.Source{Dir: o.Data, Dataset: dataset})
		if errors.Is(err, fs.ErrNotExist) {
			o.Warnf("skipped the columns of %s: %v", dataset, err)
			return nil
		}
		d.dense = append(d.dense, measuring{strings.Replace(column, "*", data.Name, 1), e, data})
		return err
	}
	for _, dataset := range segmentations {
		linear, fcn := c.Linear, c.FCN
		if dataset == cityscapes {
			for _, p := range []*evaluation.SegmentationProbe{&linear, &fcn.SegmentationProbe} {
				p.CropSize, p.TestSize, p.Batch = p.CropSize*8/3, p.TestSize*16/7, max(1, p.Batch/2)
			}
		}
		if err := errors.Join(open(dataset, "* linear", linear), open(dataset, "* FCN", fcn)); err != nil {
			return err
		}
	}
	return open("davis", "DAVIS J&F", c.Video)
}

// denseNumbers lists the numbers of [Dense] of a row, without their values.
func (d Data) denseNumbers(row string) (numbers []study.Number) {
	for _, m := range d.dense {
		numbers = append(numbers, study.Number{Row: row, Column: m.column, Data: d.Identity() + "; measured on " + m.data.Identity()})
	}
	return numbers
}

// measureDense measures a frozen encoder by [Dense].
func (d Data) measureDense(ctx context.Context, e *evaluation.Encoder) ([]study.Number, error) {
	numbers := d.denseNumbers("")
	for i, m := range d.dense {
		result, err := m.Measure(ctx, e, m.data)
		if err != nil {
			return nil, err
		}
		first, n := result.Numbers[0], &numbers[i]
		n.Metric, n.Unit, n.Value, n.Protocol = first.Metric, first.Unit, first.Value, m.Protocol()
	}
	return numbers, nil
}
