package main

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/progress"
	"github.com/semcon/semcon/sccore/weights"
)

var featuresVerb = verb{
	name:    "features",
	summary: "compute the features of a folder of images with a transformer",
	args:    "FOLDER",
	example: "semcon features photos --weights dino_deitsmall16_pretrain.pth --out features.npy\n" +
		"semcon features photos --weights weights/dino-s16.safetensors --size 448 --patches --out features.safetensors",
	run: runFeatures,
}

func runFeatures(ctx context.Context, args []string) error {
	flags := newFlags("features")
	choice := addWeightFlags(flags)
	file := flags.String("weights", "", "`FILE` of the weights, .pth or .safetensors")
	out := flags.String("out", "features.npy", "`FILE` to write: .npy with the [CLS] features, and the names of the images in .txt beside it; or .safetensors")
	patches := flags.Bool("patches", false, "also write the features of patches; --out must be .safetensors")
	size := flags.Int("size", 224, "`PIXELS` of the height and width of the centre crop of each image")
	batch := flags.Int("batch", 16, "`NUMBER` of images per batch")
	names, err := parse(flags, args)
	extension := filepath.Ext(*out)
	switch {
	case err != nil:
		return err
	case len(names) != 1:
		return usagef("want one folder of images, or one .safetensors of standardised images, got %s", listed(names))
	case *file == "":
		return usagef("--weights FILE is missing")
	case extension != ".npy" && extension != ".safetensors":
		return usagef("--out %s ends with neither .npy nor .safetensors", *out)
	case *patches && extension != ".safetensors":
		return usagef("--out %s: --patches needs a .safetensors", *out)
	case *size < 1 || *size > 8192:
		return usagef("--size %d is not between 1 and 8192", *size)
	case *batch < 1:
		return usagef("--batch %d is below 1", *batch)
	}
	im, err := choice.read(*file)
	if err != nil {
		return err
	}
	images, err := openBatches(names[0], *size)
	if err != nil {
		return err
	}
	if patch := im.ViT.PatchSize; images.height%patch != 0 || images.width%patch != 0 {
		return usagef("--size: images of %d×%d pixels cannot be split into the transformer's patches of %d", images.height, images.width, patch)
	}
	class, all, err := features(ctx, im, &images, *batch, *patches)
	for _, why := range images.skipped {
		fmt.Fprintf(os.Stderr, "skipped %v\n", why)
	}
	switch count := len(images.skipped); {
	case err != nil:
		return err
	case len(class) == 0:
		return fmt.Errorf("none of the images in %s can be read: %w", names[0], images.skipped[0])
	case count > 0:
		fmt.Fprintf(os.Stderr, "skipped %d of %d images\n", count, count+len(class))
	}
	if extension == ".npy" {
		if err := weights.WriteNPY(*out, class); err != nil {
			return err
		}
		text := strings.Join(images.names, "\n") + "\n"
		if err := atomicfile.WriteBytes(strings.TrimSuffix(*out, extension)+".txt", []byte(text)); err != nil {
			return err
		}
	} else if err := writeFeatures(*out, im, images, class, all); err != nil {
		return err
	}
	fmt.Printf("wrote %s: %d images, %d features each, from %s\n", *out, len(class), im.ViT.Dim, im.ViT.Name)
	return nil
}

// batches holds images of one size.
type batches struct {
	names         []string
	height, width int
	image         func(i int) (evaluation.Image, error)
	skipped       []error // Errors of the images that could not be read.
}

// openBatches opens a folder of images, or a .safetensors with a tensor "images", [count, height, width, 3], of standardised images.
func openBatches(path string, size int) (batches, error) {
	if filepath.Ext(path) != ".safetensors" {
		folder, err := datasets.OpenImageFolder(path)
		if err != nil {
			return batches{}, err
		}
		for _, s := range folder.Skipped {
			fmt.Fprintf(os.Stderr, "ignored %s: %s\n", s.File, s.Reason)
		}
		b := batches{height: size, width: size, image: func(i int) (evaluation.Image, error) {
			preprocessing := datasets.DefaultPreprocessing()
			pixels, read, err := folder.Preprocess(i, preprocessing, size, 1)
			if err != nil {
				return evaluation.Image{}, err
			}
			return evaluation.NewImage(pixels, read, preprocessing), nil
		}}
		for i := range folder.Len() {
			b.names = append(b.names, folder.File(i))
		}
		return b, nil
	}
	named, _, err := weights.ReadSafetensors(path)
	if err != nil {
		return batches{}, err
	}
	images := named["images"]
	if images == nil || images.DType() != dtypes.Float32 || images.Rank() != 4 || images.Shape().Dim(3) != 3 {
		return batches{}, fmt.Errorf("%s: want a float32 tensor \"images\", [count, height, width, 3]", path)
	}
	values := tensors.MustCopyFlatData[float32](images)
	b := batches{height: images.Shape().Dim(1), width: images.Shape().Dim(2)}
	for i := range images.Shape().Dim(0) {
		b.names = append(b.names, fmt.Sprint(i))
	}
	one := b.height * b.width * 3
	b.image = func(i int) (evaluation.Image, error) {
		return evaluation.Image{Height: b.height, Width: b.width, Pixels: values[i*one : (i+1)*one]}, nil
	}
	return b, nil
}

// all yields every image that can be read, until the context ends, and removes the names of the others.
func (b *batches) all(ctx context.Context) iter.Seq2[evaluation.Image, error] {
	return func(yield func(evaluation.Image, error) bool) {
		var read []string
		for i, name := range b.names {
			if ctx.Err() != nil {
				yield(evaluation.Image{}, ctx.Err())
				return
			}
			im, err := b.image(i)
			if err != nil {
				b.skipped = append(b.skipped, err)
				continue
			}
			if read = append(read, name); !yield(im, nil) {
				return
			}
		}
		b.names = read
	}
}

// features returns the [CLS] features of every image and, if patches is true, those of its patches.
func features(ctx context.Context, im *weights.Import, images *batches, batch int, patches bool) (class [][]float32, all []float32, err error) {
	engine, err := backend.Open()
	if err != nil {
		return nil, nil, err
	}
	fmt.Fprintf(os.Stderr, "engine: %s\n", backend.Engine())
	store := model.NewStore()
	if err := im.Apply(store, "/"); err != nil {
		return nil, nil, err
	}
	frozen, err := evaluation.NewFeatureExtractor(engine, im.ViT, store, "/", min(batch, len(images.names)))
	if err != nil {
		return nil, nil, err
	}
	defer frozen.Close()
	bar := progress.New(os.Stderr, "features", len(images.names))
	defer bar.Close()
	bar.Phase(progress.Compiling)
	for of, err := range frozen.Features(images.all(ctx), patches) {
		if err != nil {
			return nil, nil, err
		}
		class, all = append(class, of.Class), append(all, of.Patches...)
		bar.Phase("")
		bar.Set(len(class)+len(images.skipped), "")
	}
	return class, all, nil
}

// writeFeatures writes the tensor "class", [images, features], and unless patches is nil the tensor "patches", [images, rows, columns, features].
func writeFeatures(path string, im *weights.Import, images batches, class [][]float32, patches []float32) error {
	var rows []float32
	for _, row := range class {
		rows = append(rows, row...)
	}
	named := map[string]*tensors.Tensor{"class": tensors.FromFlatDataAndDimensions(rows, len(class), im.ViT.Dim)}
	if patches != nil {
		size := im.ViT.PatchSize
		named["patches"] = tensors.FromFlatDataAndDimensions(patches, len(class), images.height/size, images.width/size, im.ViT.Dim)
	}
	names, err := json.Marshal(images.names)
	if err != nil {
		return err
	}
	return weights.WriteSafetensors(path, named, map[string]string{
		"images": string(names), "architecture": im.ViT.Name, "positions": string(im.ViT.Positions),
	})
}
