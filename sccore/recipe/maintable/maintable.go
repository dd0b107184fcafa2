// Package maintable measures encoders that are trained in stages by the columns of the paper's main table: linear segmentation, linear classification and k-NN
// classification. The ablation and extended training are measured so.
package maintable

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/datasets"
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
	return study.Configured("ablation", c, string(profile), study.Kind(read))
}

// Check returns an error that names the first value out of range.
func (c Config) Check(profile study.Profile, read bool) (err error) {
	defer try.Handle(&err)
	try.E(settings.Check(c))
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
	return study.Cell[C]{Dataset: dataset, Path: name, Row: name[len(name)-1], Seed: seed, Config: config}
}

// Spec fills in what experiments on the table's columns share.
func Spec[C comparable](s study.Spec[C, Data]) study.Spec[C, Data] {
	s.Missing, s.Caches = recipe.Missing, true
	s.Datasets = func(o study.Options) (names, missing []string, err error) {
		if o.Profile == study.Full && o.Data == "" {
			return nil, nil, errors.New("the full profile needs --data DIR with ImageNet's images in imagenet/train and imagenet/val and COCO's in coco")
		}
		return recipe.DatasetNames(o)
	}
	return s
}

// Data holds the images that train the lines, and the labelled images that measure them.
type Data struct {
	recipe.Data
	measured []evaluation.Data // The labelled images of datasets of the experiment main. Their identities, which records hold, cover the training images, too.
	dense    []recipe.Measure
}

// metrics are the metrics of the columns.
var metrics = map[string]string{
	ColumnMIoU: "mIoU", ColumnAccuracy: "pixel accuracy", ColumnLinear: "top-1 accuracy", ColumnKNN: "k-NN accuracy",
}

// columnsOf returns the columns that the images have labels for, in the order of the table.
func columnsOf(m evaluation.Data) (columns []string) {
	if m.Scenes[0] != nil || m.Train != nil {
		columns = append(columns, ColumnMIoU, ColumnAccuracy)
	}
	if m.Objects[0] != nil {
		columns = append(columns, ColumnLinear, ColumnKNN)
	}
	return columns
}

// protocol describes how the numbers of a column are measured.
func (config Config) protocol(m evaluation.Data, column string) string {
	switch {
	case column == ColumnLinear:
		images := lo.Ternary(config.Linear.Images > 0, fmt.Sprintf("at most %d images", config.Linear.Images), "all images")
		return fmt.Sprintf("linear probe of [CLS] features, %d epochs of batches of %d of %s", config.Linear.Epochs, config.Linear.Batch, images)
	case column == ColumnKNN:
		return config.KNN.Protocol(" of [CLS] features") + ", cosine"
	case m.Train != nil:
		return config.Segmentation.Protocol()
	}
	return config.Probe.Protocol()
}

// Open opens the training images and the labelled images of a dataset. Columns of real images without labels are skipped with a warning; if there are no labels
// at all, that is an error. Synthetic images are drawn for the seed.
func Open(o study.Options, config Config, seed int) (d Data, err error) {
	defer try.Handle(&err)
	d.Data = try.E1(recipe.Open(o, config.Config, seed))
	if o.Data == "" {
		labelled := d.Labelled()
		labelled.ID = d.Identity()
		d.measured = []evaluation.Data{labelled}
		return d, nil
	}
	present, missing, err := encoders.MainTable.Present(o.Data)
	if err != nil && (o.Profile != study.Real || !errors.Is(err, fs.ErrNotExist)) { // The real profile has recall over patches.
		return d, err
	}
	for _, line := range missing {
		o.Warnf("%s", line)
	}
	slices.Sort(present) // Segmentation first, as in the table.
	for _, dataset := range present {
		m := try.E1(encoders.MainTable.Open(o.Data, dataset))
		m = encoders.Share(o, m, seed, config.Shares)
		if o.Profile == study.Smoke {
			m = m.Sample(config.Images)
		}
		if m.ID = d.Identity() + "; measured on " + m.ID; m.Objects[0] != nil { // Numbers of crops of another kind are not compared.
			m.ID += "; " + datasets.DefaultPreprocessing().Describe(config.Size)
		}
		d.measured = append(d.measured, m)
	}
	if config.Dense == (Dense{}) {
		return d, nil
	}
	d.dense, err = config.Dense.open(o, d.Identity())
	return d, err
}

// Measures measure a frozen encoder: the columns of the table that the images have labels for, recall over patches, and dense features.
func (d Data) Measures(config Config) (all []recipe.Measure) {
	table := evaluation.MainTable{Size: config.Size, KNN: config.KNN, Class: config.Linear, Patch: config.Probe, Segmentation: config.Segmentation}
	for _, of := range d.measured {
		m := recipe.Measure{Evaluation: table, Images: of, Read: func(numbers []study.Number, result evaluation.Result) error {
			for i := range numbers {
				numbers[i].Value = result.Numbers[0].Details[numbers[i].Column]
				if config.Shares <= 1 { // Seeds share the images.
					numbers[i].Images = result.Images[numbers[i].Column]
				}
			}
			return nil
		}}
		m.Numbers = lo.Map(columnsOf(of), func(column string, _ int) study.Number {
			return study.Number{Column: column, Metric: metrics[column], Unit: "%", Protocol: config.protocol(of, column), Data: of.ID}
		})
		all = append(all, m)
	}
	return slices.Concat(all, d.RecallMeasures(config.Recall, config.Probe), d.dense)
}

// Dense measures dense features as Fig. longer_training and Fig. longer_training_full do: a linear layer and an FCN on the datasets of transfer learning, and the
// propagation of masks through the videos of DAVIS.
type Dense struct {
	Linear evaluation.SegmentationProbe `json:"linear"`
	FCN    evaluation.FCNProbe          `json:"fcn"`
	Video  evaluation.LabelPropagation  `json:"video"`
}

// cityscapes is the dataset whose crops and test images are larger and whose batches are smaller, as the paper prints them.
const cityscapes = "cityscapes"

// segmentations are the datasets that a linear layer and an FCN segment, in the order of the figure.
var segmentations = []string{"coco", "voc2012", "ade20k", cityscapes}

// DenseColumns are the columns that [Dense] can have. The first three are of Fig. longer_training, all are of Fig. longer_training_full.
var DenseColumns = []string{
	"COCOStuff-27 FCN", "Cityscapes FCN", "DAVIS J&F", "PASCAL VOC FCN", "ADE20k FCN", "COCOStuff-27 linear", "PASCAL VOC linear", "ADE20k linear", "Cityscapes linear",
}

// open opens what there is of the datasets, and warns of the others. identity is that of the training images.
func (c Dense) open(o study.Options, identity string) (all []recipe.Measure, err error) {
	defer try.Handle(&err)
	open := func(dataset, column string, e evaluation.Evaluation) error {
		data, err := e.Open(evaluation.Source{Dir: o.Data, Dataset: dataset})
		if errors.Is(err, fs.ErrNotExist) {
			o.Warnf("skipped the columns of %s: %v", dataset, err)
			return nil
		}
		all = append(all, denseMeasure(strings.Replace(column, "*", data.Name, 1), e, data, identity))
		return err
	}
	for _, dataset := range segmentations {
		linear, fcn := c.Linear, c.FCN
		if dataset == cityscapes {
			for _, p := range []*evaluation.SegmentationProbe{&linear, &fcn.SegmentationProbe} {
				p.CropSize, p.TestSize, p.Batch = p.CropSize*8/3, p.TestSize*16/7, max(1, p.Batch/2)
			}
		}
		try.E(errors.Join(open(dataset, "* linear", linear), open(dataset, "* FCN", fcn)))
	}
	try.E(open("davis", "DAVIS J&F", c.Video))
	return all, nil
}

// denseMeasure records the first number of an evaluation of dense features.
func denseMeasure(column string, e evaluation.Evaluation, data evaluation.Data, identity string) recipe.Measure {
	n := study.Number{Column: column, Protocol: e.Protocol(), Data: identity + "; measured on " + data.Identity()}
	return recipe.Measure{Evaluation: e, Images: data, Numbers: []study.Number{n}, Read: func(numbers []study.Number, result evaluation.Result) error {
		first := result.Numbers[0]
		numbers[0].Metric, numbers[0].Unit, numbers[0].Value = first.Metric, first.Unit, first.Value
		return nil
	}}
}
