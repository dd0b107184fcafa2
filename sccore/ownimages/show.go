package ownimages

import (
	"fmt"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/figures/features"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/datasets"
)

// NamedFigure is a figure and the name of its file.
type NamedFigure struct {
	Name   string
	Figure figures.Figure
}

// Show draws what an encoder makes of photographs: the principal components of patch features as colours ("pca"), where the patches of the next image are
// like the middle one of each ("nearest", for two images or more), and the attention of [CLS] ("attention"). Images are cropped to size pixels, a multiple of
// the encoder's patches; 0 is 224 or the nearest such multiple. The error names the file.
func Show(b compute.Backend, weightsFile string, images []string, size int) (all []NamedFigure, err error) {
	v, err := sccore.EncoderOf(weightsFile)
	if err != nil {
		return nil, err
	}
	if err := standardImages(weightsFile); err != nil {
		return nil, err
	}
	if size == 0 {
		size = sccore.Nearest(224, v.PatchSize)
	}
	set := &datasets.Images{Name: "images", Height: size, Width: size}
	for _, path := range images {
		photo, err := datasets.ReadPhoto(path)
		if err != nil {
			return nil, err
		}
		pixels, _, err := datasets.DefaultPreprocessing().Apply(photo.Image(), size, v.PatchSize)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		set.Pixels, set.Labels = append(set.Pixels, pixels...), append(set.Labels, 0)
	}
	config := sccore.Default().Adapt(v)
	config.Prototypes = v.Prototypes
	viewer, err := features.NewViewer(b, config, size, set, set.Len())
	if err != nil {
		return nil, err
	}
	encoder := features.NamedEncoder{Name: "components", File: weightsFile}
	add := func(name string, figure figures.Figure, err error) error {
		all = append(all, NamedFigure{name, figure})
		return err
	}
	components, err := viewer.Components(encoder)
	if err := add("pca", components, err); err != nil {
		return nil, err
	}
	if set.Len() > 1 {
		encoder.Name = "likeness"
		nearest, err := viewer.Correspondences(encoder)
		if err := add("nearest", nearest, err); err != nil {
			return nil, err
		}
	}
	attention, err := viewer.Attention(weightsFile)
	return all, add("attention", attention, err)
}
