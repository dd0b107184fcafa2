package theory

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"

	"github.com/semcon/semcon/analysis/theory"
	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/sccore/experiments/effectaug"
	"github.com/semcon/semcon/sccore/methods"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/views"
)

// data holds a dataset and, by cell, the records of the encoders that were trained on it.
type data struct {
	effectaug.Data
	trained map[string]study.Record
}

// Skipped is empty because the records of the encoders list the skipped files.
func (data) Skipped() []string { return []string{} }

// open reads a dataset, or draws that of a seed.
func open(o study.Options, dataset string, cells []study.Cell[Config]) (d data, err error) {
	trained, err := trainedEncoders(o)
	if err != nil {
		return d, err
	}
	d.trained = map[string]study.Record{}
	for _, r := range trained {
		d.trained[r.Cell] = r
	}
	var settings effectaug.Config
	if err := d.trained[cells[0].Name()].DecodeConfig(&settings); err != nil {
		return d, err
	}
	d.Data, err = effectaug.Open(o, dataset, settings.Shares, cells[0].Seed)
	return d, err
}

// run is a running cell.
type run = study.Run[Config, data]

// worker measures encoders. It compiles each architecture once.
type worker struct {
	frozen map[string]*methods.FeatureExtractor
}

// Close frees the device's memory.
func (w *worker) Close() {
	for _, frozen := range w.frozen {
		frozen.Close()
	}
}

// Run records the quantities of one encoder, on the views that it was trained with and on the views with all transformations.
func (w *worker) Run(r *run) error {
	trained, config := r.Data.trained[r.Cell.Name()], r.Cell.Config
	if trained.Data != r.Data.Identity() {
		return fmt.Errorf("the encoder was trained on other data than --data: %s", trained.Data)
	}
	var settings effectaug.Config
	if err := trained.DecodeConfig(&settings); err != nil {
		return err
	}
	encoder, err := w.encoder(r, settings.Encoder)
	if err != nil {
		return err
	}
	file := filepath.Join(study.Folder(r.Options().Out, effectaug.Name), filepath.FromSlash(path.Dir(trained.Curve)), effectaug.WeightsFile)
	if err := encoder.Load(file); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: the encoder of this record does not exist any more", file)
	} else if err != nil {
		return err
	}
	train := r.Data.Train
	images := train.Subset(len(train.Classes) * min(config.Images, train.SmallestClass()))
	all := effectaug.Rows[0].Recipe(settings.Recipe)
	details := map[string]float64{"knn_accuracy": trained.Value / 100}
	tails := &theory.TailsFile{}
	for _, shown := range []struct {
		name   string
		recipe views.Recipe
	}{{OwnViews, settings.Recipe}, {CommonViews, all}} {
		flat, dim, err := encoder.Features(images, shown.recipe, uint64(trained.Seed))
		if err != nil {
			return err
		}
		for _, form := range theory.Forms {
			f, err := theory.NewFeaturesInForm(flat, dim, images.Labels, len(train.Classes), config.Views, form)
			if err != nil {
				return err
			}
			values, curves, err := f.Quantities(config.Thresholds)
			if err != nil {
				return err
			}
			for name, value := range values {
				details[shown.name+"."+form+"."+name] = value
			}
			tails.Add(shown.name, form, curves)
		}
	}
	if err := atomicfile.WriteBytes(filepath.Join(r.Dir, tailsFile), tails.Bytes()); err != nil {
		return err
	}
	curve, err := r.Path(tailsFile)
	if err != nil {
		return err
	}
	r.Step("measured")
	return r.Record(study.Number{
		Row: trained.Row, Column: trained.Column, Metric: "nearest-mean error", Unit: "%", Value: 100 * details[OwnViews+"."+theory.BackboneForm+".error"],
		Protocol: fmt.Sprintf("backbone features of %d training images, the first of each class, %d views each; error of the nearest class mean on these views",
			images.Len(), config.Views),
		Details: details, Curve: curve,
	})
}

// encoder returns the compiled encoder with the given name.
func (w *worker) encoder(r *run, name string) (*methods.FeatureExtractor, error) {
	if w.frozen[name] == nil {
		frozen, err := methods.NewFeatureExtractor(r.Backend(), name, effectaug.ImageSize, r.Cell.Config.Views)
		if err != nil {
			return nil, err
		}
		w.frozen[name] = frozen
	}
	return w.frozen[name], nil
}

// tailsFile holds an encoder's curves of p_T and q_T.
const tailsFile = "tails.csv"

// The views that features are computed from.
const (
	// OwnViews are the views that the encoder was trained with.
	OwnViews = "own"
	// CommonViews are the views with all transformations, the same for every encoder.
	CommonViews = "all"
)
