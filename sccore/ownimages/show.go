package ownimages

import (
	"embed"
	"fmt"
	"path/filepath"

	"github.com/dsnet/try"
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
func NewViewer(b compute.Backend, weightsFile string, images []string, size int) (_ *features.Viewer, err error) {
	defer try.Handle(&err)
	v := try.E1(sccore.EncoderOf(weightsFile))
	try.E(standardImages(weightsFile))
	if size == 0 {
		size = v.NearestSize(224)
	}
	set := &datasets.Images{Name: "images", Height: size, Width: size}
	for _, path := range images {
		photo := try.E1(datasets.ReadPhoto(path))
		pixels, _, err := datasets.DefaultPreprocessing().Apply(photo.Image(), size, v.PatchSize)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		set.Pixels, set.Labels = append(set.Pixels, pixels...), append(set.Labels, 0)
	}
	config := sccore.Default().Adapt(v)
	config.Prototypes, config.BlocksAfterFilter = v.Prototypes, v.BlocksAfterFilter
	viewer := try.E1(features.NewViewer(b, config, size, set, set.Len()))
	viewer.Names = images
	return viewer, nil
}

// standardImages returns an error if the makers of weights standardise images otherwise than training and pictures do.
func standardImages(path string) (err error) {
	defer try.Handle(&err)
	p, _, source := try.E3(weights.ReadPreprocessing(path))
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
	defer try.Handle(&err)
	for name, file := range map[string]*string{"cat.jpg": &photo, EncoderFile: &weightsFile} {
		content := try.E1(example.ReadFile("example/" + name))
		*file = filepath.Join(folder, name)
		try.E(atomicfile.WriteBytes(*file, content))
	}
	return photo, weightsFile, nil
}

// Show draws what an encoder makes of photographs: the principal components of patch features as colours ("pca"), where the patches of the next image are like
// the middle one of each ("nearest", for two images or more), where the patches of all images are like the ones at points of the first image ("points", if
// there are points), and the attention of [CLS] ("attention"). [NewViewer] says what size is. The error names the file.
func Show(b compute.Backend, weightsFile string, images []string, size int, points ...features.Point) (all []study.Figure, err error) {
	defer try.Handle(&err)
	viewer := try.E1(NewViewer(b, weightsFile, images, size))
	add := func(name string, figure figures.Figure) { all = append(all, study.Figure{Name: name, Figure: figure}) }
	add("pca", try.E1(viewer.Components(features.NamedEncoder{Name: "components", File: weightsFile})))
	likeness := features.NamedEncoder{Name: "likeness", File: weightsFile}
	if len(images) > 1 {
		add("nearest", try.E1(viewer.Correspondences(likeness)))
	}
	if len(points) > 0 {
		add("points", try.E1(viewer.Points(likeness, points...)))
	}
	add("attention", try.E1(viewer.Attention(weightsFile)))
	return all, nil
}
