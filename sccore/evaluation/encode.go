package evaluation

import (
	"context"
	"fmt"
	"iter"
	"math"
	"path/filepath"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/train"
)

// EncodeBatch is the number of images that experiments encode at once.
const EncodeBatch = 32

// Encoded are the features of a set of images.
type Encoded struct {
	Dim, Rows, Columns int
	Class, Patches     []float32 // [N, Dim] and, if asked for, [N, Rows, Columns, Dim].
}

// Encode computes the features of the first n images of a set, read by [ImagesOf].
func Encode(ctx context.Context, extractor *FeatureExtractor, source datasets.Source, size, n int, patches bool) (Encoded, error) {
	images := func(yield func(Image, error) bool) {
		for image, err := range ImagesOf(source, extractor.Preprocessing, size, n, extractor.Skipped) {
			if err == nil {
				err = ctx.Err()
			}
			if !yield(image, err) || err != nil {
				return
			}
		}
	}
	out := Encoded{Dim: extractor.ViT.Dim}
	for features, err := range extractor.Features(images, patches) {
		if err != nil {
			return Encoded{}, err
		}
		out.Rows, out.Columns = features.Rows, features.Columns
		out.Class, out.Patches = append(out.Class, features.Class...), append(out.Patches, features.Patches...)
	}
	return out, nil
}

// LabelledPictures are pictures with labels. Every picture counts in the result, so [ImagesOf] returns an error if one cannot be read.
type LabelledPictures struct{ *datasets.ImageFolder }

// ImagesOf yields the first n images of a set as an encoder takes them: crops of size pixels of pictures, made by a preprocessing that crops, whole scenes
// resized to squares of size pixels, and other images in memory at their own size. A picture of [datasets.ImageFolder] that cannot be read is black, since training skips it too; skipped is told of it unless it
// is nil.
func ImagesOf(source datasets.Source, by datasets.Preprocessing, size, n int, skipped func(datasets.Skipped)) iter.Seq2[Image, error] {
	return func(yield func(Image, error) bool) {
		for i := range min(n, source.Len()) {
			var pixels []uint8
			var err error
			read := datasets.Size{Height: size, Width: size}
			switch source := source.(type) {
			case *datasets.ImageFolder:
				if pixels, read, err = source.Preprocess(i, by, size, 1); err != nil {
					if skipped != nil {
						skipped(source.Skip(i, err))
					}
					pixels, read, err = make([]uint8, size*size*3), datasets.Size{Height: size, Width: size}, settings.Check(by)
				}
			case LabelledPictures:
				pixels, read, err = source.Preprocess(i, by, size, 1)
			case *datasets.AnnotatedScenes:
				pixels = source.Square(i, size)
			case *datasets.Images:
				pixels, read = source.At(i), datasets.Size{Height: source.Height, Width: source.Width}
			default:
				err = fmt.Errorf("cannot encode images of a %T", source)
			}
			if err != nil {
				yield(Image{}, err)
				return
			}
			im := NewImage(pixels, read, by)
			if im.Name = nameOf(source, i); !yield(im, nil) {
				return
			}
		}
	}
}

// nameOf names an image of a set in errors.
func nameOf(source datasets.Source, i int) string {
	switch source := source.(type) {
	case *datasets.ImageFolder:
		return filepath.Join(source.Name, source.File(i))
	case LabelledPictures:
		return nameOf(source.ImageFolder, i)
	case *datasets.Images:
		return fmt.Sprintf("%d of %s", i, source.Name)
	}
	return ""
}

// AnnotatedPatches are patch features of N images, computed once, and the annotation of the images' pixels.
type AnnotatedPatches struct {
	Rows, Columns, Dim int
	Patches            []float32 // [N, Rows, Columns, Dim]

	Height, Width int     // The annotation's: multiples of Rows and Columns.
	Truth         []uint8 // [N, Height, Width], classes from 0, or [datasets.Ignore].
}

// Len is the number of images.
func (a AnnotatedPatches) Len() int { return len(a.Truth) / (a.Height * a.Width) }

// shares counts the classes in each patch, as shares of the patch's pixels: [N·Rows·Columns, classes]. Ignored pixels have no class.
func (a AnnotatedPatches) shares(classes int) []float32 {
	high, wide := a.Height/a.Rows, a.Width/a.Columns
	out := make([]float32, a.Len()*a.Rows*a.Columns*classes)
	for i, class := range a.Truth {
		if class == datasets.Ignore {
			continue
		}
		column, row, image := i%a.Width/wide, i/a.Width%a.Height/high, i/(a.Width*a.Height)
		out[((image*a.Rows+row)*a.Columns+column)*classes+int(class)] += 1 / float32(high*wide)
	}
	return out
}

// standardization is the mean and standard deviation of each feature over the set, [Dim] each.
func (a AnnotatedPatches) standardization() (mean, deviation []float32) {
	count := float64(len(a.Patches) / a.Dim)
	sum, square := make([]float64, a.Dim), make([]float64, a.Dim)
	for i, x := range a.Patches {
		sum[i%a.Dim] += float64(x)
	}
	for i, x := range a.Patches {
		centred := float64(x) - sum[i%a.Dim]/count
		square[i%a.Dim] += centred * centred
	}
	for d := range a.Dim {
		mean = append(mean, float32(sum[d]/count))
		deviation = append(deviation, float32(math.Sqrt(square[d]/count+1e-12)))
	}
	return mean, deviation
}

// EncodeScenes encodes the patches of training and test scenes, with their annotation.
func EncodeScenes(ctx context.Context, extractor *FeatureExtractor, scenes [2]*synthetic.Set, size int) (annotated [2]AnnotatedPatches, err error) {
	for i, s := range scenes {
		features, err := Encode(ctx, extractor, s.Images, size, s.Len(), true)
		if err != nil {
			return annotated, err
		}
		annotated[i] = AnnotatedPatches{
			Rows: features.Rows, Columns: features.Columns, Dim: features.Dim, Patches: features.Patches,
			Height: s.Height, Width: s.Width, Truth: s.ClassMask,
		}
	}
	return annotated, nil
}

// EncodeObjects computes the [CLS] features of training and test images, [N, Dim] each.
func EncodeObjects(ctx context.Context, extractor *FeatureExtractor, objects [2]datasets.Source, size int) (class [2]*tensors.Tensor, err error) {
	for i, o := range objects {
		features, err := Encode(ctx, extractor, o, size, o.Len(), false)
		if err != nil {
			return class, err
		}
		class[i] = tensors.FromFlatDataAndDimensions(features.Class, o.Len(), features.Dim)
	}
	return class, nil
}

// RandomViT draws the weights of a transformer that encoder.ViTByName knows, at the root of a store: the same on every backend.
func RandomViT(name string, seed int) (v encoder.ViT, store *model.Store, err error) {
	if v, err = encoder.ViTByName(name); err != nil {
		return v, nil, err
	}
	host, err := backend.OpenConfig(backend.Go)
	if err != nil {
		return v, nil, err
	}
	defer host.Finalize()
	store = model.NewStore()
	err = caught(func() error {
		tokens, err := model.NewExec(host, store, func(scope *model.Scope, images *graph.Node) *graph.Node { return v.Tokens(scope, images).Class })
		if err != nil {
			return err
		}
		defer tokens.Finalize()
		_, err = tokens.Compile(shapes.Make(dtypes.Float32, 1, v.PatchSize, v.PatchSize, 3)) // Compiling creates the variables.
		return err
	})
	if err != nil {
		return v, nil, err
	}
	return v, store, train.Initialize(store, uint64(seed))
}
