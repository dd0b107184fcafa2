package ownimages

import (
	"embed"
	"fmt"
	"path/filepath"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/figures/features"
	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/datasets"
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

//go:embed example/cat.jpg example/encoder.safetensors
var example embed.FS

// Example writes a photograph and a small encoder, trained on drawn scenes, into a folder, for what wants them where there are none. Their README.md says what
// they are.
func Example(folder string) (photo, weightsFile string, err error) {
	for name, file := range map[string]*string{"cat.jpg": &photo, EncoderFile: &weightsFile} {
		content, err := example.ReadFile("example/" + name)
		if err != nil {
			return "", "", err
		}
		*file = filepath.Join(folder, name)
		if err := atomicfile.WriteBytes(*file, content); err != nil {
			return "", "", err
		}
	}
	return photo, weightsFile, nil
}

// Show draws what an encoder makes of photographs: the principal components of patch features as colours ("pca"), where the patches of the next image are like
// the middle one of each ("nearest", for two images or more), where the patches of all images are like the ones at points of the first image ("points", if
// there are points), and the attention of [CLS] ("attention"). [NewViewer] says what size is. The error names the file.
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
