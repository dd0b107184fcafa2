package ablation

import (
	"context"
	"fmt"
	"slices"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/experiments/mainresults"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/study"
)

// Data holds the images that train the lines, and the labelled images that measure them.
type Data struct {
	recipe.Data
	measured []measured
}

// measured holds the labelled images of one dataset of the experiment main. Its identity, which records hold, covers the training images, too.
type measured struct {
	dataset, identity string // dataset is "imagenet", "coco" or "synthetic".
	mainresults.Data
}

// metrics are the metrics of the columns.
var metrics = map[string]string{
	ColumnMIoU: "mIoU", ColumnAccuracy: "pixel accuracy", ColumnLinear: "top-1 accuracy", ColumnKNN: "k-NN accuracy",
}

// columns returns the columns that the images have labels for, in the order of the table.
func (m measured) columns() (columns []string) {
	if m.Scenes[0] != nil || m.Annotated[0] != nil {
		columns = append(columns, ColumnMIoU, ColumnAccuracy)
	}
	if m.Objects[0] != nil {
		columns = append(columns, ColumnLinear, ColumnKNN)
	}
	return columns
}

// protocol describes how the numbers of a column are measured.
func (m measured) protocol(column string, config Config) string {
	switch {
	case column == ColumnLinear:
		images := "all images"
		if config.Linear.Images > 0 {
			images = fmt.Sprintf("at most %d images", config.Linear.Images)
		}
		return fmt.Sprintf("linear probe of [CLS] features, %d epochs of batches of %d of %s", config.Linear.Epochs, config.Linear.Batch, images)
	case column == ColumnKNN:
		return fmt.Sprintf("weighted k-NN of [CLS] features, K %d, temperature %g, cosine", config.KNN.K, config.KNN.Temperature)
	case m.dataset == "coco":
		return config.evaluation().Protocol(m.dataset)
	}
	return config.Probe.Protocol()
}

// Open opens the training images and the labelled images of a dataset. Columns of real images without labels are skipped with a warning; if there are no
// labels at all, that is an error. Synthetic images are those of a seed.
func Open(o study.Options, config Config, seed int) (d Data, err error) {
	if d.Data, err = recipe.Open(o, config.Config, seed); err != nil {
		return d, err
	}
	if o.Data == "" {
		m := measured{dataset: "synthetic", identity: d.Identity(), Data: mainresults.Data{Classes: len(d.Objects[0].Classes), Scenes: d.Scenes}}
		for i, objects := range d.Objects {
			m.Objects[i], m.Labels[i] = objects.Images, objects.Labels
		}
		d.measured = []measured{m}
		return d, nil
	}
	present, missing, err := mainresults.Sources.Present(o.Data)
	if err != nil {
		return d, err
	}
	for _, line := range missing {
		o.Warnf("%s", line)
	}
	slices.Sort(present) // Segmentation first, as in the table.
	for _, dataset := range present {
		m, err := mainresults.Sources.Open(o.Data, dataset)
		if err != nil {
			return d, err
		}
		m = m.Share(o, seed, config.Shares)
		if o.Profile == study.Smoke {
			m = m.Sample(config.Images)
		}
		identity := d.Identity() + "; measured on " + m.Identity()
		if m.Objects[0] != nil { // Numbers of crops of another kind are not compared.
			identity += "; " + datasets.DefaultPreprocessing().Describe(config.Size)
		}
		d.measured = append(d.measured, measured{dataset, identity, m})
	}
	return d, nil
}

// Numbers lists the numbers of a row that [Data.Measure] measures, without their values.
func (d Data) Numbers(row string) (numbers []study.Number) {
	for _, m := range d.measured {
		for _, column := range m.columns() {
			numbers = append(numbers, study.Number{Row: row, Column: column, Data: m.identity})
		}
	}
	return append(numbers, d.RecallNumbers(row)...)
}

// Measure measures a frozen encoder: the columns of the table that the images have labels for.
func (d Data) Measure(ctx context.Context, b compute.Backend, frozen *evaluation.FeatureExtractor, config Config, seed int) (numbers []study.Number, err error) {
	for _, m := range d.measured {
		values, err := m.Measure(ctx, b, frozen, config.evaluation(), seed)
		if err != nil {
			return nil, err
		}
		for _, column := range m.columns() {
			numbers = append(numbers, study.Number{
				Column: column, Metric: metrics[column], Unit: "%", Value: values[column], Protocol: m.protocol(column, config), Data: m.identity,
			})
		}
	}
	recall, err := d.MeasureRecall(ctx, b, frozen, config.Recall, config.Probe, seed)
	return append(numbers, recall...), err
}
