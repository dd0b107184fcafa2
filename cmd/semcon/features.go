package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/internal/plural"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/progress"
	"github.com/semcon/semcon/sccore/safetensors"
	"github.com/semcon/semcon/sccore/weights"
)

var featuresVerb = verb{
	name:    "features",
	summary: "compute the features of images with a transformer",
	args:    "FOLDER|LIST|-",
	example: "semcon features photos --weights dino_deitsmall16_pretrain.pth --out features.npy\n" +
		"semcon features photos --weights weights/dino-s16.safetensors --size 448 --patches --out features.safetensors\n" +
		"find photos -name '*.jpg' | semcon features - --weights weights/dino-s16.safetensors --layer 9,12 --patches --crop-mode whole --out maps.safetensors",
	kept: "finished batches are kept beside --out",
	run:  runFeatures,
}

func runFeatures(ctx context.Context, args []string) error {
	c, from, choice, err := parseFeatures(args)
	if err != nil {
		return err
	}
	if err := requireWritableFile("out", c.out); err != nil {
		return err
	}
	im, err := choice.read(c.weights)
	if err != nil {
		return err
	}
	if err := c.outputs.Check(im.ViT); err != nil {
		return usagef("--layer: %v", err)
	}
	patch := im.ViT.PatchSize
	standardised := filepath.Ext(from) == ".safetensors"
	if c.preprocessing.CropMode != datasets.WholeImage && c.size%patch != 0 && !standardised {
		return usagef("--size: images of %d×%d pixels cannot be split into the transformer's patches of %d", c.size, c.size, patch)
	}
	images, err := openImages(from, c.preprocessing, c.size, patch)
	if err != nil {
		return err
	}
	digest, err := digestOf(c.weights)
	if err != nil {
		return err
	}
	engine, err := backend.Open()
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "engine: %s\n", backend.Engine())
	described := c.preprocessing.Describe(c.size)
	if standardised {
		described = "standardised images"
	}
	p, err := openPartial(c.out, map[string]any{
		"weights": digest, "transformer": fmt.Sprintf("%+v", im.ViT), "prefix": im.Prefix, "ignore": im.Ignore, "images": images.identity, "preprocessing": described,
		"outputs": c.outputs, "tensors": c.names(), "batch": c.batch, "engine": backend.Name(),
	}, c.names())
	if err != nil {
		return err
	}
	defer p.close()
	store := model.NewStore()
	if err := im.Apply(store, "/"); err != nil {
		return err
	}
	frozen, err := evaluation.NewFeatureExtractor(engine, im.ViT, store, "/", min(c.batch, len(images.names)))
	if err != nil {
		return err
	}
	defer frozen.Close()
	if err := extract(ctx, frozen, images, c, p); err != nil {
		return err
	}
	for _, why := range p.skipped {
		fmt.Fprintf(os.Stderr, "skipped %s\n", why)
	}
	if len(p.rows) == 0 {
		return errors.Join(fmt.Errorf("none of the images in %s can be read: %s", from, p.skipped[0]), os.RemoveAll(p.dir))
	}
	if count := len(p.skipped); count > 0 {
		fmt.Fprintf(os.Stderr, "skipped %d of %s\n", count, plural.Count(count+len(p.rows), "image"))
	}
	if err := writeFeatures(c, im, p, described); err != nil {
		return err
	}
	fmt.Printf("wrote %s: %s, %d features each, from %s\n", c.out, plural.Count(len(p.rows), "image"), im.ViT.Dim, im.ViT.Name)
	return os.RemoveAll(p.dir)
}

// extract computes the features that are still missing, a batch of images of one size at a time.
func extract(ctx context.Context, frozen *evaluation.FeatureExtractor, images imageList, c featureChoice, p *partialFeatures) error {
	bar := progress.New(os.Stderr, "features", len(images.names))
	defer bar.Close()
	if p.done > 0 {
		bar.Resumed(p.done)
	}
	bar.Phase(progress.Compiling)
	var batch []evaluation.Image
	b := batchDone{Done: p.done}
	flush := func() error {
		if len(batch) == 0 && len(b.Skipped) == 0 {
			return nil
		}
		values := make([][]float32, len(p.names))
		stream := func(yield func(evaluation.Image, error) bool) {
			for _, im := range batch {
				if !yield(im, nil) {
					return
				}
			}
		}
		for image, err := range frozen.Extract(stream, c.outputs) {
			if err != nil {
				return err
			}
			for i, of := range valuesOf(image, c.class) {
				values[i] = append(values[i], of...)
			}
			b.Grid = [2]int{image[0].Rows, image[0].Columns}
		}
		if err := p.add(b, values); err != nil {
			return err
		}
		batch, b = nil, batchDone{Done: p.done}
		bar.Phase("")
		bar.Set(p.done, "")
		return nil
	}
	for i, one := range images.from(ctx, p.done) {
		if one.err != nil {
			b.Done, b.Skipped = i+1, append(b.Skipped, one.err.Error())
			continue
		}
		if len(batch) > 0 && (batch[0].Height != one.image.Height || batch[0].Width != one.image.Width) {
			if err := flush(); err != nil {
				return err
			}
		}
		batch = append(batch, one.image)
		if b.Done, b.Images = i+1, append(b.Images, images.names[i]); len(batch) == c.batch {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return flush()
}

// writeFeatures writes the tensor "class", [images, features], and the tensor "patches", [images, rows, columns, features], or those of each block.
func writeFeatures(c featureChoice, im *weights.Import, p *partialFeatures, preprocessing string) error {
	isMap := func(name string) bool { return strings.HasSuffix(name, "patches") }
	named := p.tensorsOf(im.ViT.Dim, c.preprocessing.CropMode == datasets.WholeImage, isMap)
	if extension := filepath.Ext(c.out); extension == ".npy" {
		if err := safetensors.WriteNPY(c.out, named[p.names[0]]); err != nil {
			return err
		}
		text := strings.Join(p.rows, "\n") + "\n"
		return atomicfile.WriteBytes(strings.TrimSuffix(c.out, extension)+".txt", []byte(text))
	}
	names, err := json.Marshal(p.rows)
	if err != nil {
		return err
	}
	metadata := map[string]string{
		"images": string(names), "architecture": im.ViT.Name, "positions": string(im.ViT.Positions), "preprocessing": preprocessing,
	}
	if len(im.Ignored) > 0 {
		metadata["ignored"] = strings.Join(im.Ignored, " ")
	}
	return safetensors.WriteRaw(c.out, named, metadata)
}
