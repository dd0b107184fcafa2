package maintable

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/encoders"
)

// Data holds the images that train the lines, and the labelled images that measure them.
type Data struct {
	recipe.Data
	measured []measured
	dense    []measuring
}

// measured holds the labelled images of one dataset of the experiment main. Its identity, which records hold, covers the training images, too.
type measured struct {
	identity string
	evaluation.Data
}

// metrics are the metrics of the columns.
var metrics = map[string]string{
	ColumnMIoU: "mIoU", ColumnAccuracy: "pixel accuracy", ColumnLinear: "top-1 accuracy", ColumnKNN: "k-NN accuracy",
}

// columns returns the columns that the images have labels for, in the order of the table.
func (m measured) columns() (columns []string) {
	if m.Scenes[0] != nil || m.Train != nil {
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
		return config.KNN.Protocol(" of [CLS] features") + ", cosine"
	case m.Train != nil:
		return config.Segmentation.Protocol()
	}
	return config.Probe.Protocol()
}

// Open opens the training images and the labelled images of a dataset. Columns of real images without labels are skipped with a warning; if there are no labels
// at all, that is an error. Synthetic images are drawn for the seed.
func Open(o study.Options, config Config, seed int) (d Data, err error) {
	if d.Data, err = recipe.Open(o, config.Config, seed); err != nil {
		return d, err
	}
	if o.Data == "" {
		d.measured = []measured{{d.Identity(), d.Labelled()}}
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
		m, err := encoders.MainTable.Open(o.Data, dataset)
		if err != nil {
			return d, err
		}
		m = encoders.Share(o, m, seed, config.Shares)
		if o.Profile == study.Smoke {
			m = m.Sample(config.Images)
		}
		identity := d.Identity() + "; measured on " + m.Identity()
		if m.Objects[0] != nil { // Numbers of crops of another kind are not compared.
			identity += "; " + datasets.DefaultPreprocessing().Describe(config.Size)
		}
		d.measured = append(d.measured, measured{identity, m})
	}
	if config.Dense == (Dense{}) {
		return d, nil
	}
	err = d.openDense(o, config.Dense)
	return d, err
}

// Numbers lists the numbers of a row that [Data.Measure] measures, without their values.
func (d Data) Numbers(row string) (numbers []study.Number) {
	for _, m := range d.measured {
		for _, column := range m.columns() {
			numbers = append(numbers, study.Number{Row: row, Column: column, Data: m.identity})
		}
	}
	return slices.Concat(numbers, d.RecallNumbers(row), d.denseNumbers(row))
}

// Measure measures a frozen encoder: the columns of the table that the images have labels for.
func (d Data) Measure(ctx context.Context, e *evaluation.Encoder, config Config) (numbers []study.Number, err error) {
	table := evaluation.MainTable{Size: config.Size, KNN: config.KNN, Class: config.Linear, Patch: config.Probe, Segmentation: config.Segmentation}
	for _, m := range d.measured {
		result, err := table.Measure(ctx, e, m.Data)
		if err != nil {
			return nil, err
		}
		values := result.Numbers[0].Details
		for _, column := range m.columns() {
			numbers = append(numbers, study.Number{
				Column: column, Metric: metrics[column], Unit: "%", Value: values[column], Protocol: m.protocol(column, config), Data: m.identity,
			})
		}
	}
	recall, err := d.MeasureRecall(ctx, e, config.Recall, config.Probe)
	if err != nil {
		return nil, err
	}
	dense, err := d.measureDense(ctx, e)
	return slices.Concat(numbers, recall, dense), err
}
