package evaluation

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/knn"
	"github.com/semcon/semcon/sccore/metrics"
)

// KNN classifies images of one object each by the nearest training images, by the cosine of [CLS] features.
type KNN struct {
	labelled
	knn.Classifier
	Size int `json:"size" range:"[8,2048]"` // Height and width in pixels of crops of photographs.
}

// Protocol describes the evaluation in one line.
func (k KNN) Protocol() string { return k.Classifier.Protocol(" of [CLS] features") + ", cosine" }

// Measure measures the accuracy with the first class, and with the first five.
func (k KNN) Measure(ctx context.Context, e *Encoder, d Data) (Result, error) {
	return classify(ctx, e, d, k.Size, "k-NN accuracy", func(bank, queries *tensors.Tensor) ([][]int32, error) {
		return k.Rank(e.backend, bank, d.Labels[0], d.Classes, queries, 5)
	})
}

// LinearClassification classifies images of one object each by a linear layer on [CLS] features.
type LinearClassification struct {
	labelled
	LinearProbe
	Size int `json:"size" range:"[8,2048]"` // Height and width in pixels of crops of photographs.
}

// Protocol describes the evaluation in one line.
func (l LinearClassification) Protocol() string {
	return fmt.Sprintf("%s of [CLS] features of %d-pixel images", l.LinearProbe.Protocol(), l.Size)
}

// Measure measures the accuracy with the first class, and with the first five.
func (l LinearClassification) Measure(ctx context.Context, e *Encoder, d Data) (Result, error) {
	return classify(ctx, e, d, l.Size, "linear accuracy", func(bank, queries *tensors.Tensor) ([][]int32, error) {
		return l.Rank(e.backend, bank, d.Labels[0], d.Classes, queries, 5, e.Seed)
	})
}

// classify measures a classifier of [CLS] features, [N, Dim] each.
func classify(ctx context.Context, e *Encoder, d Data, size int, metric string, rank func(bank, queries *tensors.Tensor) ([][]int32, error)) (r Result, err error) {
	features, err := EncodeObjects(ctx, e.FeatureExtractor, d.Objects, size)
	if err != nil {
		return r, err
	}
	defer features[0].FinalizeAll()
	defer features[1].FinalizeAll()
	ranked, err := rank(features[0], features[1])
	r.Numbers = []Number{{
		Name: "accuracy", Metric: metric, Unit: "%", Value: metrics.TopKAccuracy(ranked, d.Labels[1], 1),
		Details: map[string]float64{"accuracy@5": metrics.TopKAccuracy(ranked, d.Labels[1], 5)},
	}}
	return r, err
}

// Spread measures how much of their space the patch features of the first images use, see [metrics.Spread]. The images need no labels.
type Spread struct {
	labelled
	Images int `json:"images" range:"[1,2^31)"`
	Size   int `json:"size" range:"[8,2048]"` // Height and width in pixels of crops of photographs.
}

// Protocol describes the evaluation in one line.
func (s Spread) Protocol() string {
	return fmt.Sprintf("spread and effective rank of the patch features of %d images of %d px", s.Images, s.Size)
}

// Measure measures the standard deviation and the effective rank of the features of the training images.
func (s Spread) Measure(ctx context.Context, e *Encoder, d Data) (r Result, err error) {
	encoded, err := Encode(ctx, e.FeatureExtractor, d.Objects[0], s.Size, s.Images, true)
	if err != nil {
		return r, err
	}
	spread, err := metrics.MeasureSpread(tensors.FromFlatDataAndDimensions(encoded.Patches, len(encoded.Patches)/encoded.Dim, encoded.Dim))
	r.Numbers = []Number{{Name: "std", Metric: "spread of patch features", Value: spread.Std}, {Name: "rank", Metric: "effective rank of patch features", Value: spread.Rank}}
	return r, err
}

// ImageNet is the dataset of class folders, imagenet/train and imagenet/val.
const ImageNet = "imagenet"

// The number of classes of ImageNet-1k, and what the identity of class folders with another number ends in.
const (
	imageNetClasses = 1000
	otherClasses    = " in imagenet/, where ImageNet-1k has 1000"
)

// OtherClasses reports whether the images that an identity in records names lie in imagenet/ without being ImageNet-1k, because they have another number of
// classes. The paper's numbers do not compare with theirs.
func OtherClasses(identity string) bool { return strings.Contains(identity, otherClasses) }

// Labelled opens images of one object each, with labels.
func (s Source) Labelled() (d Data, err error) {
	if s.Dataset == Synthetic {
		d.Name = "synthetic objects"
		for i := range 2 {
			d.addObjects(i, synthetic.Run(s.Seed).Objects(s.Images, s.Size, 11+2*i))
		}
		return d, nil
	}
	var identities [2]string
	var classes [2][]string
	for i, split := range []datasets.Split{datasets.Train, datasets.Test} {
		pictures, err := datasets.ImageNet(s.Dir, split)
		if err != nil {
			return d, err
		}
		if d.Labels[i], classes[i], err = pictures.Labels(); err != nil {
			return d, err
		}
		d.Objects[i], identities[i] = LabelledPictures{ImageFolder: pictures}, pictures.Identity
	}
	d.Name, d.Classes = "ImageNet-1k", len(classes[0])
	d.ID = strings.Join(identities[:], "; ")
	if d.Classes != imageNetClasses {
		d.Name = fmt.Sprintf("imagenet/ (%d classes)", d.Classes)
		d.ID += fmt.Sprintf("; %d classes%s", d.Classes, otherClasses)
	}
	if !slices.Equal(classes[0], classes[1]) {
		return d, fmt.Errorf("%s: train and val have different classes", filepath.Join(s.Dir, "imagenet"))
	}
	if s.Images > 0 {
		d = d.Sample(s.Images)
	}
	return d, nil
}

// addObjects adds a drawn set of objects: the first of a pair trains, the second tests.
func (d *Data) addObjects(i int, set *synthetic.Set) {
	d.Objects[i], d.Labels[i], d.Classes = set.Images, set.Labels, len(set.Classes)
	if i > 0 {
		d.ID += "; "
	}
	d.ID += set.Identity
}
