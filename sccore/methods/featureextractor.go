package methods

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/layers"
	"github.com/semcon/semcon/sccore/safetensors"
	"github.com/semcon/semcon/sccore/train"
	"github.com/semcon/semcon/sccore/views"
)

// FeatureExtractor is a frozen backbone that maps augmented views to features. One compiled graph serves any number of trained weights of the same
// encoder.
type FeatureExtractor struct {
	name     string
	size     int // Height and width of images.
	views    int
	store    *model.Store
	features *model.Exec
}

// NewFeatureExtractor compiles the named encoder for square images of size pixels and this many views of each. Load sets its weights.
func NewFeatureExtractor(b compute.Backend, name string, size, viewsOfEach int) (*FeatureExtractor, error) {
	backbone, err := encoder.ByName(name)
	if err != nil {
		return nil, err
	}
	if size < 1 || viewsOfEach < 1 {
		return nil, fmt.Errorf("feature extractor %s: %d views of %d pixels", name, viewsOfEach, size)
	}
	f := &FeatureExtractor{name: name, size: size, views: viewsOfEach, store: model.NewStore()}
	f.features, err = model.NewExec(b, f.store, func(scope *model.Scope, inputs []*Node) *Node {
		images, params := inputs[0], inputs[1]
		x := standardized(views.Apply(images, params, size))
		return backbone.Features(scope.In(onlineScope).In("backbone"), x, layers.Norm{})
	})
	if err != nil {
		return nil, err
	}
	caught := exceptions.TryCatch[error](func() {
		_, err = f.features.Compile(shapes.Make(dtypes.Uint8, featureBatch, size, size, 3), shapes.Make(dtypes.Float32, viewsOfEach*featureBatch, views.NumParams))
	})
	if caught != nil {
		err = caught
	}
	return f, err
}

// Close frees the device's memory.
func (f *FeatureExtractor) Close() {
	f.features.Finalize()
	f.store.Finalize()
}

// Load reads the weights that [Trainer.SaveOnline] wrote to path and ignores the heads. The error names the file and what is wrong with it.
func (f *FeatureExtractor) Load(path string) error {
	named, _, err := safetensors.Read(path)
	if err != nil {
		return err
	}
	for variable := range f.store.Scope("/" + onlineScope).IterVariables() {
		name := strings.ReplaceAll(strings.TrimPrefix(variable.Path(), "/"+onlineScope+"/"), "/", ".")
		value, ok := named[name]
		if !ok {
			return fmt.Errorf("%s: no variable %s of %s", path, name, f.name)
		}
		if !value.Shape().Equal(variable.Shape()) {
			return fmt.Errorf("%s: variable %s is %s, %s needs %s", path, name, value.Shape(), f.name, variable.Shape())
		}
		if err := variable.SetValue(value); err != nil {
			return fmt.Errorf("%s: variable %s: %w", path, name, err)
		}
	}
	return nil
}

// Features maps the views that recipe draws of each image to features, image by image and view by view: the first length values are the first view of
// the first image. The views are the same as in training epoch 0 with this seed.
func (f *FeatureExtractor) Features(images *datasets.Images, recipe views.Recipe, seed uint64) (features []float32, length int, err error) {
	if images.Height != f.size || images.Width != f.size {
		return nil, 0, fmt.Errorf("%s: images of %d×%d pixels, the encoder was compiled for %d×%d",
			images.Name, images.Width, images.Height, f.size, f.size)
	}
	return featuresOf(f.features, images, f.views, func(begin int, pixels *tensors.Tensor) []any {
		indices := make([]int32, featureBatch)
		for i := range indices {
			indices[i] = int32(begin + i)
		}
		return []any{pixels, recipe.Draw(seed, 0, indices, f.views, f.size, f.size)}
	})
}

// featureBatch is the number of images per inference; the last batch is padded with black images.
const featureBatch = 256

// featuresOf runs a graph on all images and returns its rows, [views, featureBatch, length], image by image. inputs makes the graph's inputs of a batch.
func featuresOf(
	exec *model.Exec, images *datasets.Images, views int, inputs func(begin int, pixels *tensors.Tensor) []any,
) (features []float32, length int, err error) {
	size := images.Height * images.Width * 3
	for begin := 0; begin < images.Len(); begin += featureBatch {
		count, batch := min(featureBatch, images.Len()-begin), make([]uint8, featureBatch*size)
		copy(batch, images.Pixels[begin*size:(begin+count)*size])
		given := inputs(begin, tensors.FromFlatDataAndDimensions(batch, featureBatch, images.Height, images.Width, 3))
		var flat []float32
		if err := train.Execute(exec, given, func(outputs []*tensors.Tensor) {
			length, flat = outputs[0].Shape().Dim(-1), tensors.MustCopyFlatData[float32](outputs[0])
		}); err != nil {
			return nil, 0, err
		}
		features = slices.Grow(features, count*views*length)
		for i := range count {
			for v := range views {
				row := flat[(v*featureBatch+i)*length:][:length]
				if err := safetensors.CheckFinite(row); err != nil {
					return nil, 0, fmt.Errorf("image %d of %s: its features are not finite: %w", begin+i, images.Name, err)
				}
				features = append(features, row...)
			}
		}
	}
	return features, length, nil
}
