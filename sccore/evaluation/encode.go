package evaluation

import (
	"context"
	"fmt"
	"iter"
	"path/filepath"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/settings"
)

// EncodeBatch is the number of images that experiments encode at once.
const EncodeBatch = 32

// Encoded are the features of a set of images.
type Encoded struct {
	Dim, Rows, Columns int
	Class, Patches     []float32 // [N, Dim] and, if asked for, [N, Rows, Columns, Dim].
}

// Encode computes the features of the first n images of a set, read by [ImagesOf].
func Encode(extractor *FeatureExtractor, source datasets.Source, size, n int, patches bool) (Encoded, error) {
	return encodeWhile(context.Background(), extractor, source, size, n, patches)
}

// encodeWhile is [Encode] until ctx ends.
func encodeWhile(ctx context.Context, extractor *FeatureExtractor, source datasets.Source, size, n int, patches bool) (Encoded, error) {
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

// ImagesOf yields the first n images of a set as an encoder takes them: crops of size pixels of pictures, made by a preprocessing that crops, and images in
// memory at their own size. A picture of [datasets.ImageFolder] that cannot be read is black, since training skips it too; skipped is told of it unless it
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

// EncodeScenes encodes the patches of training and test scenes, with their annotation.
func EncodeScenes(extractor *FeatureExtractor, scenes [2]*synthetic.Set, size int) (annotated [2]AnnotatedPatches, err error) {
	return encodeScenes(context.Background(), extractor, scenes, size)
}

func encodeScenes(ctx context.Context, extractor *FeatureExtractor, scenes [2]*synthetic.Set, size int) (annotated [2]AnnotatedPatches, err error) {
	for i, s := range scenes {
		features, err := encodeWhile(ctx, extractor, s.Images, size, s.Len(), true)
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
func EncodeObjects(extractor *FeatureExtractor, objects [2]datasets.Source, size int) (class [2]*tensors.Tensor, err error) {
	return encodeObjects(context.Background(), extractor, objects, size)
}

func encodeObjects(ctx context.Context, extractor *FeatureExtractor, objects [2]datasets.Source, size int) (class [2]*tensors.Tensor, err error) {
	for i, o := range objects {
		features, err := encodeWhile(ctx, extractor, o, size, o.Len(), false)
		if err != nil {
			return class, err
		}
		class[i] = tensors.FromFlatDataAndDimensions(features.Class, o.Len(), features.Dim)
	}
	return class, nil
}
