package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/finetune"
	"github.com/semcon/semcon/sccore/progress"
)

var segmentVerb = verb{
	name:    "segment",
	summary: "draw the classes of images' pixels with a fine-tuned model",
	args:    "IMAGE…",
	example: "semcon segment street.jpg park.png --weights out/fine-tune/cells/synthetic/second/upernet/seed0-…/model.safetensors --out masks",
	run:     runSegment,
}

func runSegment(ctx context.Context, args []string) error {
	flags := newFlags("segment")
	file := flags.String("weights", "", "`FILE` of a fine-tuned model, as \"semcon run fine-tune\" leaves it")
	out := flags.String("out", "masks", "`FOLDER` for the pictures: NAME_mask.png holds the classes, NAME_overlay.png shows them on the image")
	paths, err := parse(flags, args)
	switch {
	case err != nil:
		return err
	case len(paths) == 0:
		return usagef("want at least one image")
	case *file == "":
		return usagef("--weights FILE is missing")
	}
	stems, err := stemsOf(paths, "_mask.png")
	if err != nil {
		return err
	}
	if err := requireWritable("out", *out); err != nil {
		return err
	}
	engine, err := backend.Open()
	if err != nil {
		return err
	}
	model, err := finetune.OpenSegmentationModel(engine, *file)
	if err != nil {
		return err
	}
	defer model.Close()
	if err := os.MkdirAll(*out, 0o755); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	fmt.Fprintf(os.Stderr, "engine: %s\n%s on %s: %s\n", backend.Engine(), model.Segmenter.ViT.Name, model.Dataset, strings.Join(model.Classes, ", "))
	bar := progress.New(os.Stderr, "segment", len(paths))
	defer bar.Close()
	var failed []error
	for i, path := range paths {
		shares, err := segmentImage(ctx, model, path, filepath.Join(*out, stems[i]))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		bar.Set(i+1, path)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		fmt.Printf("%s: %s\n", path, shares)
	}
	return errors.Join(failed...)
}

// stemsOf returns the names of images without folder and ending. Two images with one name would overwrite each other's pictures.
func stemsOf(paths []string, ending string) (stems []string, err error) {
	for _, path := range paths {
		stem := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
		if i := slices.Index(stems, stem); i >= 0 {
			return nil, usagef("%s and %s would both become %s%s", paths[i], path, stem, ending)
		}
		stems = append(stems, stem)
	}
	return stems, nil
}

// segmentImage writes the pictures of an image and returns the shares of its classes, the largest first.
func segmentImage(ctx context.Context, model *finetune.SegmentationModel, path, stem string) (string, error) {
	photo, err := datasets.ReadPhoto(path)
	if err != nil {
		return "", err
	}
	classes, err := model.Inference.Predict(ctx, photo, model.Segment)
	if err != nil {
		return "", err
	}
	palette := make(color.Palette, 256)
	for i := range palette {
		palette[i] = color.RGBA{A: 255}
	}
	for i, c := range model.Colours {
		palette[i] = color.RGBA{uint8(c >> 16), uint8(c >> 8), uint8(c), 255}
	}
	mask := &image.Paletted{Pix: classes, Stride: photo.Width, Rect: image.Rect(0, 0, photo.Width, photo.Height), Palette: palette}
	overlay := image.NewRGBA(mask.Rect)
	counts := make([]int, len(model.Classes))
	for i, class := range classes {
		tint := palette[class].(color.RGBA)
		mix := func(a, b uint8) uint8 { return uint8((int(a) + int(b)) / 2) }
		overlay.SetRGBA(i%photo.Width, i/photo.Width, color.RGBA{mix(photo.Pixels[3*i], tint.R), mix(photo.Pixels[3*i+1], tint.G), mix(photo.Pixels[3*i+2], tint.B), 255})
		counts[class]++
	}
	for name, picture := range map[string]image.Image{stem + "_mask.png": mask, stem + "_overlay.png": overlay} {
		var encoded bytes.Buffer
		if err := png.Encode(&encoded, picture); err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		if err := atomicfile.WriteBytes(name, encoded.Bytes()); err != nil {
			return "", err
		}
	}
	var order []int
	for class, count := range counts {
		if count > 0 {
			order = append(order, class)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(counts[b], counts[a]) })
	var shares []string
	for _, class := range order {
		shares = append(shares, fmt.Sprintf("%s %.1f %%", model.Classes[class], 100*float64(counts[class])/float64(len(classes))))
	}
	return strings.Join(shares, ", "), nil
}
