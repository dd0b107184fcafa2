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

// Viewer draws what encoders make of some images.
type Viewer struct {
	config  sccore.Config // Of the method: how views are cut, and which encoder it is.
	size    int           // Height and width in pixels at which images are encoded.
	backend compute.Backend
	scenes  datasets.Source
	images  []evaluation.Image
	shown   []image.Image
}

// NewViewer takes the first count images of a set, count at least 2, at size pixels.
func NewViewer(b compute.Backend, config sccore.Config, size int, images datasets.Source, count int) (*Viewer, error) {
	w := &Viewer{config: config, size: size, backend: b, scenes: images}
	for im, err := range evaluation.ImagesOf(images, size, count) {
		if err != nil {
			return nil, err
		}
		w.images, w.shown = append(w.images, im), append(w.shown, figures.NewImage(im.RGB(), im.Height, im.Width))
	}
	if len(w.images) < max(count, 2) {
		return nil, fmt.Errorf("%d scenes to show, want %d", len(w.images), max(count, 2))
	}
	return w, nil
}

// enlargement is how often each pixel of a scene is repeated: small scenes are shown about 130 pixels large.
func (w *Viewer) enlargement() int { return max(1, 130/w.size) }
