package ownimages

import (
	"bytes"
	"fmt"
	"image/png"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/figures/features"
	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/weights"
)

// NewViewer returns a viewer of photographs for an encoder. They are cropped to size pixels, a multiple of the encoder's patches; 0 is 224 or the nearest
// such multiple. The error names the file.
func NewViewer(b compute.Backend, weightsFile string, images []string, size int) (*features.Viewer, error) {
	v, err := sccore.EncoderOf(weightsFile)
	if err != nil {
		return nil, err
	}
	if err := standardImages(weightsFile); err != nil {
		return nil, err
	}
	if size == 0 {
		size = v.NearestSize(224)
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
	config.Prototypes, config.BlocksAfterFilter = v.Prototypes, v.BlocksAfterFilter
	viewer, err := features.NewViewer(b, config, size, set, set.Len())
	if err != nil {
		return nil, err
	}
	viewer.Names = images
	return viewer, nil
}

// standardImages returns an error if the makers of weights standardise images otherwise than training and pictures do.
func standardImages(path string) error {
	p, _, source, err := weights.ReadPreprocessing(path)
	if err != nil {
		return err
	}
	if ours := datasets.DefaultPreprocessing(); p.Mean != ours.Mean || p.Std != ours.Std {
		return fmt.Errorf("%s: images have mean %v and std %v, here they have ImageNet's", source, p.Mean, p.Std)
	}
	return nil
}

// DrawScene writes a drawn scene to a PNG file, for what wants a photograph where there is none.
func DrawScene(file string) error {
	var encoded bytes.Buffer
	if err := png.Encode(&encoded, synthetic.Scenes(1, 192, 4).Images.Image(0)); err != nil {
		return err
	}
	return atomicfile.WriteBytes(file, encoded.Bytes())
}

// RandomEncoder writes a small transformer with random weights to a file, for what wants a file of weights where there is none.
func RandomEncoder(file string) error {
	v, store, err := evaluation.RandomViT("vit-tiny", 0)
	if err != nil {
		return err
	}
	defer store.Finalize()
	return weights.ExportViT(file, store, "/", v, nil, map[string]string{"run": "random weights"})
}

// Show draws what an encoder makes of photographs: the principal components of patch features as colours ("pca"), where the patches of the next image are
// like the middle one of each ("nearest", for two images or more), where those of all images are like the ones at points of the first image ("points", if there are
// points), and the attention of [CLS] ("attention"). [NewViewer] says what size is. The error names the file.
func Show(b compute.Backend, weightsFile string, images []string, size int, points ...features.Point) (all []study.Figure, err error) {
	viewer, err := NewViewer(b, weightsFile, images, size)
	if err != nil {
		return nil, err
	}
	add := func(name string, figure figures.Figure, err error) error {
		all = append(all, study.Figure{Name: name, Figure: figure})
		return err
	}
	components, err := viewer.Components(features.NamedEncoder{Name: "components", File: weightsFile})
	if err := add("pca", components, err); err != nil {
		return nil, err
	}
	if len(images) > 1 {
		nearest, err := viewer.Correspondences(features.NamedEncoder{Name: "likeness", File: weightsFile})
		if err := add("nearest", nearest, err); err != nil {
			return nil, err
		}
	}
	if len(points) > 0 {
		alike, err := viewer.Points(features.NamedEncoder{Name: "likeness", File: weightsFile}, points...)
		if err := add("points", alike, err); err != nil {
			return nil, err
		}
	}
	attention, err := viewer.Attention(weightsFile)
	return all, add("attention", attention, err)
}
