package features

import (
	"fmt"
	"image"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/evaluation"
)

// Viewer draws the features of a few images.
type Viewer struct {
	Names []string // Of the images in figures, such as those of their files; without them they are scenes without names.

	config  sccore.Config // The method's configuration, with the encoder and the views.
	size    int           // Height and width in pixels at which images are encoded.
	backend compute.Backend
	scenes  datasets.Source
	images  []evaluation.Image
	shown   []image.Image
}

// NewViewer returns a viewer of the first count images of a set, at least 1, encoded at size pixels.
func NewViewer(b compute.Backend, config sccore.Config, size int, images datasets.Source, count int) (*Viewer, error) {
	w := &Viewer{config: config, size: size, backend: b, scenes: images}
	preprocessing := datasets.DefaultPreprocessing()
	for im, err := range evaluation.ImagesOf(images, preprocessing, size, count, nil) {
		if err != nil {
			return nil, err
		}
		w.images, w.shown = append(w.images, im), append(w.shown, figures.NewImage(im.RGB(preprocessing), im.Height, im.Width))
	}
	if len(w.images) < max(count, 1) {
		return nil, fmt.Errorf("%d scenes to show, want %d", len(w.images), max(count, 1))
	}
	return w, nil
}

// names returns the names of scenes in figures, shortened, and nil if they have none.
func (w *Viewer) names() (names []string) {
	for _, name := range w.Names {
		names = append(names, shortened(name))
	}
	return names
}

// enlargement is the factor by which scenes are enlarged: small scenes become about 130 pixels large.
func (w *Viewer) enlargement() int { return max(1, 130/w.size) }
