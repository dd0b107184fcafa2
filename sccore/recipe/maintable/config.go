// Package maintable measures encoders that are trained in stages by the columns of the paper's main table: linear segmentation, linear classification and k-NN
// classification. The ablation and extended training are measured so.
package maintable

import (
	"errors"
	"fmt"
	"slices"

	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/encoders"
)

// Config is the configuration of training in two stages with all parts on, or in the second stage alone from a file of weights, and of the evaluation of frozen
// features.
type Config struct {
	recipe.Config
	Linear evaluation.LinearProbe `json:"linear"` // Linear classification of [CLS] features.

	Segmentation evaluation.SegmentationProbe `json:"segmentation,omitzero"` // Segments COCOStuff-27.
	Dense        Dense                        `json:"dense,omitzero"`        // Measures dense features further; zero for no more than the table's columns.
}

// The columns of the paper's table.
const (
	ColumnMIoU     = "linear_seg_mIoU"
	ColumnAccuracy = "linear_seg_Acc"
	ColumnLinear   = "linear_cls_Acc@1"
	ColumnKNN      = "knn_Acc@1"
)

// Columns are the columns of the paper's table.
var Columns = []string{ColumnMIoU, ColumnAccuracy, ColumnLinear, ColumnKNN}

// ProfileConfig returns the configuration of a profile before --set, for real images if read is true, else for synthetic ones.
func ProfileConfig(profile study.Profile, read bool) Config {
	c := Config{Config: recipe.ProfileConfig(profile, read), Linear: evaluation.FastLinearProbe()}
	if read {
		c.Segmentation = encoders.MainSegmentation(profile)
	}
	switch profile { // A linear probe on a thousand images needs several epochs.
	case study.Quick:
		c.Linear.Epochs = 50
	case study.Smoke:
		c.Linear.Epochs, c.Linear.Batch = 10, 8
	case study.Real: // Four lines have it.
		c.Second.Lambdas.ImageConcentration = sccore.Default().Lambdas.ImageConcentration
	}
	return c
}

// Check returns an error that names the first value out of range.
func (c Config) Check(profile study.Profile, read bool) error {
	if err := settings.Check(c); err != nil {
		return err
	}
	for _, line := range c.Lines() {
		if err := settings.Check(line.Config(c.Second)); err != nil {
			return fmt.Errorf("line %d: second.%w", line.Line, err)
		}
	}
	return c.Config.Check(profile, read)
}

// AllLines are the paper's lines and those that it does not have.
var AllLines = slices.Concat(sccore.Ablations, sccore.FilterAblations)

// Lines are all lines that the encoder can have: in one of a single block there is no attention after the filter.
func (c Config) Lines() []sccore.Ablation {
	v, err := encoder.ViTByName(c.Second.Encoder)
	return slices.DeleteFunc(slices.Clone(AllLines), func(line sccore.Ablation) bool { return err == nil && v.Depth == 1 && line.BlocksAfterFilter > 0 })
}

// NewCell returns a cell of this name. Those on real images have the dataset in front.
func NewCell[C any](dataset string, seed int, config C, name ...string) study.Cell[C] {
	if dataset == recipe.Images {
		name = append([]string{dataset}, name...)
	}
	return study.Cell[C]{Dataset: dataset, Path: name, Seed: seed, Config: config}
}

// Spec fills in what experiments on the table's columns share.
func Spec[C comparable](s study.Spec[C, Data]) study.Spec[C, Data] {
	s.Missing, s.BySeed, s.Caches = recipe.Missing, study.EachSeed, true
	s.Datasets = func(o study.Options) (names, missing []string, err error) {
		if o.Profile == study.Full && o.Data == "" {
			return nil, nil, errors.New("the full profile needs --data DIR with ImageNet's images in imagenet/train and imagenet/val and COCO's in coco")
		}
		return recipe.DatasetNames(o)
	}
	return s
}
