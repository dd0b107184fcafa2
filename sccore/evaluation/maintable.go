package evaluation

import (
	"context"
	"fmt"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/knn"
	"github.com/semcon/semcon/sccore/metrics"
)

// MainTable has the measures of the paper's Tab. main, as far as the data allow: k-NN and linear classification of [CLS] features, linear segmentation by patch
// features. Measures that do not apply are zero.
type MainTable struct {
	Preprocessing datasets.Preprocessing
	Size          int // Height and width in pixels of objects and of synthetic scenes.
	KNN           knn.Classifier
	Class         LinearProbe
	Patch         PatchProbe        // Segments synthetic scenes.
	Segmentation  SegmentationProbe // Segments COCOStuff-27.
}

// Protocol describes the measures in one line.
func (m MainTable) Protocol() string {
	if m.KNN.K == 0 {
		text := m.Segmentation.Protocol()
		if m.Preprocessing != (datasets.Preprocessing{}) {
			text += "; " + m.Preprocessing.Colours()
		}
		return text
	}
	images := fmt.Sprintf("%d-pixel images", m.Size)
	if m.Patch.Steps == 0 {
		images = "images, " + m.Preprocessing.Describe(m.Size)
	}
	text := fmt.Sprintf("[CLS] features of %s; %s, cosine; %s", images, m.KNN.Protocol(""), m.Class.Protocol())
	if m.Patch.Steps > 0 {
		text += "; on scenes a " + m.Patch.Protocol()
	}
	return text
}

// Open opens class folders, images with masks, or both kinds drawn.
func (m MainTable) Open(s Source) (d Data, err error) {
	switch s.Dataset {
	case Synthetic:
		run := synthetic.Run(s.Seed)
		for i := range 2 {
			d.addObjects(i, run.Objects(s.Images, s.Size, 11+2*i))
			d.Scenes[i] = run.Scenes(s.Images, s.Size, 12+2*i)
			d.ID += "; " + d.Scenes[i].Identity
		}
		d.Name = "synthetic objects and scenes"
		return d, nil
	case ImageNet:
		return s.Labelled()
	}
	return s.Segmentation(datasets.Train, datasets.Test)
}

// Measure measures the table's columns that the data allow, in percent, as details of one number.
func (m MainTable) Measure(ctx context.Context, e *Encoder, d Data) (r Result, err error) {
	if m.Preprocessing != (datasets.Preprocessing{}) {
		e.Preprocessing = m.Preprocessing
	}
	columns := map[string]float64{}
	number := Number{Name: "accuracy", Metric: "k-NN accuracy", Unit: "%", Details: columns}
	if d.Objects[0] != nil {
		if err := m.classify(ctx, e, d, columns); err != nil {
			return r, err
		}
		number.Value = columns["knn_Acc@1"]
	}
	var segmentation metrics.Segmentation
	switch {
	case d.Train != nil:
		segmentation, err = m.Segmentation.Evaluate(ctx, e, d)
		number.Name, number.Metric, number.Value = "miou", "mIoU", segmentation.MIoU
	case d.Scenes[0] != nil:
		segmentation, err = m.Patch.segment(ctx, e, d)
	}
	if d.Train != nil || d.Scenes[0] != nil {
		columns["linear_seg_mIoU"], columns["linear_seg_Acc"] = segmentation.MIoU, segmentation.Accuracy
	}
	r.Numbers = []Number{number}
	return r, err
}

// classify adds the accuracies of both classifiers, of features that are computed once.
func (m MainTable) classify(ctx context.Context, e *Encoder, d Data, columns map[string]float64) error {
	features, err := EncodeObjects(ctx, e.FeatureExtractor, d.Objects, m.Size)
	if err != nil {
		return err
	}
	for name, rank := range map[string]func(bank, queries *tensors.Tensor) ([][]int32, error){
		"knn": func(bank, queries *tensors.Tensor) ([][]int32, error) {
			return m.KNN.Rank(e.backend, bank, d.Labels[0], d.Classes, queries, 5)
		},
		"linear_cls": func(bank, queries *tensors.Tensor) ([][]int32, error) {
			return m.Class.Rank(e.backend, bank, d.Labels[0], d.Classes, queries, 5, e.Seed)
		},
	} {
		ranked, err := rank(features[0], features[1])
		if err != nil {
			return err
		}
		for _, k := range []int{1, 5} {
			columns[fmt.Sprintf("%s_Acc@%d", name, k)] = metrics.TopKAccuracy(ranked, d.Labels[1], k)
		}
	}
	return nil
}
