package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/figures/features"
	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/internal/plural"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/finetune"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/ownimages"
	"github.com/semcon/semcon/sccore/progress"
)

// The verbs that draw what weights make of images.
var (
	showVerb = verb{
		name:    "show",
		summary: "draw what weights see in images: principal components, nearest patches, attention of [CLS]",
		args:    "IMAGE…",
		example: "semcon show dog.jpg park.jpg --weights runs/photos/encoder.safetensors --out pictures",
		run:     runShow,
	}
	attentionVerb = verb{
		name:    "attention",
		summary: "draw what a transformer's heads and its filter attend to",
		args:    "IMAGE…",
		example: "semcon attention cat.jpg street.png --weights dino_deitsmall16_pretrain.pth --out attention.png\n" +
			"semcon attention cat.jpg --weights out/pretrain/cells/synthetic/seed0-…/second/online.safetensors --self 0 --cross 0 --out attention.svg",
		run: runAttention,
	}
	segmentVerb = verb{
		name:    "segment",
		summary: "draw the classes of images' pixels with a fine-tuned model",
		args:    "IMAGE…",
		example: "semcon segment street.jpg park.png --weights out/fine-tune/cells/synthetic/second/upernet/seed0-…/model.safetensors --out masks",
		run:     runSegment,
	}
	detectVerb = verb{
		name:    "detect",
		summary: "find the objects in images with a fine-tuned detector: pictures with boxes and masks, and COCO's result file",
		args:    "IMAGE…",
		example: "semcon detect street.jpg park.png --weights out/detection/cells/synthetic/second/seed0-…/model.safetensors --out detections",
		run:     runDetect,
	}
)

// parseImages reads the arguments of a verb: images, and the file of weights that a flag names.
func parseImages(flags *flag.FlagSet, args []string, file *string, missing func() error) (paths []string, err error) {
	paths, err = parse(flags, args)
	switch {
	case err != nil:
		return nil, err
	case len(paths) == 0:
		return nil, usagef("want at least one image")
	case *file == "":
		return nil, missing()
	}
	return paths, nil
}

func runShow(_ context.Context, args []string) error {
	flags := newFlags("show")
	file := weightsFlag(flags)
	out := flags.String("out", "pictures", "`FOLDER` for the pictures, .svg and .png")
	size := flags.Int("size", 0, "`PIXELS` of the height and width that images are cropped to; by default 224 or the nearest that the patches fit")
	paths := must(parseImages(flags, args, file, noWeights))
	if *size < 0 || *size > 2048 {
		return usagef("--size %d is not between 1 and 2048", *size)
	}
	check(requireReadableFile("weights", *file))
	check(requireWritable("out", *out))
	for _, f := range must(ownimages.Show(must(openEngine()), *file, paths, *size)) {
		check(figures.SaveFigure(*out, f.Name, f.Figure))
		fmt.Printf("wrote %s\n", filepath.Join(*out, f.Name+".png"))
	}
	if len(paths) == 1 {
		fmt.Println("no nearest.png: it compares each image with the next, and there is one image")
	} else {
		fmt.Printf("nearest.png compares each image with the next, so it has no row for %s\n", paths[len(paths)-1])
	}
	return nil
}

func runAttention(ctx context.Context, args []string) error {
	flags := newFlags("attention")
	choice, file := addWeightFlags(flags), weightsFlag(flags)
	out := flags.String("out", "attention.png", "`FILE` of the figure: .png, .svg or .pdf")
	size := flags.Int("size", 224, "`PIXELS` of the height and width of the crop of an image; by default as the weights' makers have it")
	maps := features.AttentionMaps{}
	flags.IntVar(&maps.Heads, "self", 3, "`NUMBER` of self-attention maps, those of the first heads of [CLS]; 0 for all")
	flags.IntVar(&maps.Filter, "cross", 3, "`NUMBER` of cross-attention maps of the filter, those that vary most; 0 for all")
	paths := must(parseImages(flags, args, file, noWeights))
	if maps.Heads < 0 || maps.Filter < 0 {
		return usagef("--self %d, --cross %d: want numbers from 0", maps.Heads, maps.Filter)
	}
	if err := figures.CheckFormat(*out); err != nil {
		return usagef("--out %v", err)
	}
	check(requireReadableFile("weights", *file))
	check(requireWritableFile("out", *out))
	v := must(choice.open(*file))
	if given(flags, "size") {
		v.size = *size
	}
	patch := v.ViT.PatchSize
	if v.size < patch || v.size%patch != 0 {
		return usagef("--size %d is not a multiple of the transformer's patches of %d", v.size, patch)
	}
	var images []evaluation.Image
	for _, path := range paths {
		pixels, shape, err := v.preprocessing.ReadFile(path, v.size, patch)
		check(err)
		im := evaluation.NewImage(pixels, shape, v.preprocessing)
		im.Name = path
		images = append(images, im)
	}
	frozen, free, err := v.extractor(must(openEngine()), 1)
	check(err)
	defer free()
	sheet := must(maps.Draw(frozen, images))
	check(ctx.Err())
	check(figures.SaveAs(filepath.Clean(*out), sheet))
	fmt.Printf("wrote %s: %s of %s, from %s\n", *out, plural.Count(len(sheet.Images)-1, "map"), plural.Count(len(images), "image"), v.ViT.Name)
	return nil
}

// noModel is the error of a missing file of a fine-tuned model.
func noModel() error { return usagef("--weights FILE is missing") }

func runSegment(ctx context.Context, args []string) error {
	flags := newFlags("segment")
	file := flags.String("weights", "", "`FILE` of a fine-tuned model, as \"semcon run fine-tune\" leaves it")
	out := flags.String("out", "masks", "`FOLDER` for the pictures: NAME_mask.png holds the classes, NAME_overlay.png shows them on the image")
	paths := must(parseImages(flags, args, file, noModel))
	stems := must(stemsOf(paths, "_mask.png"))
	check(requireWritable("out", *out))
	model := must(finetune.OpenSegmentationModel(must(backend.Open()), *file))
	defer model.Close()
	fmt.Fprintf(os.Stderr, "engine: %s\n%s on %s: %s\n", backend.Engine(), model.Segmenter.ViT.Name, model.Dataset, strings.Join(model.Classes, ", "))
	return eachImage(ctx, "segment", paths, func(i int, photo *datasets.SegmentedImage) (string, error) {
		classes, err := model.Inference.Predict(ctx, photo, model.Segment)
		if err != nil {
			return "", err
		}
		return drawClasses(model, photo, classes, filepath.Join(*out, stems[i]))
	})
}

// eachImage reads images in turn, and prints for each what predict says of it. It goes on after a failure.
func eachImage(ctx context.Context, title string, paths []string, predict func(i int, photo *datasets.SegmentedImage) (string, error)) error {
	bar := progress.New(os.Stderr, title, len(paths))
	defer bar.Close()
	var failed []error
	for i, path := range paths {
		photo, err := datasets.ReadPhoto(path)
		var summary string
		if err == nil {
			summary, err = predict(i, photo)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		bar.Set(i+1, path)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		fmt.Printf("%s: %s\n", path, summary)
	}
	return errors.Join(failed...)
}

// drawClasses writes the pictures of an image and returns the shares of its classes, the largest first.
func drawClasses(model *finetune.SegmentationModel, photo *datasets.SegmentedImage, classes []uint8, stem string) (string, error) {
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
	var order []int
	for i, class := range classes {
		tint := palette[class].(color.RGBA)
		mix := func(a, b uint8) uint8 { return uint8((int(a) + int(b)) / 2) }
		overlay.SetRGBA(i%photo.Width, i/photo.Width, color.RGBA{mix(photo.Pixels[3*i], tint.R), mix(photo.Pixels[3*i+1], tint.G), mix(photo.Pixels[3*i+2], tint.B), 255})
		if counts[class]++; counts[class] == 1 {
			order = append(order, int(class))
		}
	}
	if err := errors.Join(writePNG(stem+"_mask.png", mask), writePNG(stem+"_overlay.png", overlay)); err != nil {
		return "", err
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) })
	var shares []string
	for _, class := range order {
		shares = append(shares, fmt.Sprintf("%s %.1f %%", model.Classes[class], 100*float64(counts[class])/float64(len(classes))))
	}
	return strings.Join(shares, ", "), nil
}

func writePNG(path string, picture image.Image) error {
	var encoded bytes.Buffer
	if err := png.Encode(&encoded, picture); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return atomicfile.WriteBytes(path, encoded.Bytes())
}

// resultsName is the result file's name.
const resultsName = "results.json"

func runDetect(ctx context.Context, args []string) error {
	flags := newFlags("detect")
	file := flags.String("weights", "", "`FILE` of a fine-tuned detector, as \"semcon run detection\" leaves it")
	out := flags.String("out", "detections", "`FOLDER` for the pictures, NAME_objects.png, and for "+resultsName+", COCO's format: image_id is the number in the "+
		"image's name, as in COCO, or, if a name is not a number, the image's place in the call, from 1")
	score := flags.Float64("score", 0.5, "lowest `SCORE`, from 0 to 1, of the objects that are drawn and counted; "+resultsName+" has all above 0.05")
	paths := must(parseImages(flags, args, file, noModel))
	if !(*score >= 0 && *score <= 1) {
		return usagef("--score %g is not between 0 and 1", *score)
	}
	stems := must(stemsOf(paths, "_objects.png"))
	check(requireWritable("out", *out))
	model := must(finetune.OpenDetectionModel(must(backend.Open()), *file))
	defer model.Close()
	fmt.Fprintf(os.Stderr, "engine: %s\n%s on %s: %s\n", backend.Engine(), model.Detector.ViT.Name, model.Dataset, plural.Count(len(model.Categories), "class"))
	ids := imageIDs(stems)
	var results []metrics.Detection
	failed := eachImage(ctx, "detect", paths, func(i int, photo *datasets.SegmentedImage) (string, error) {
		found, err := model.Inference.Predict(ctx, photo, model.Detect)
		if err != nil {
			return "", err
		}
		summary, err := drawFound(model, photo, found, *score, filepath.Join(*out, stems[i]+"_objects.png"))
		if err == nil {
			results = append(results, finetune.Results(found, ids[i], model.Categories)...)
		}
		return summary, err
	})
	check(ctx.Err())
	return errors.Join(failed, metrics.WriteDetectionsFile(filepath.Join(*out, resultsName), results))
}

// imageIDs returns the numbers of images in results.
func imageIDs(stems []string) []int64 {
	ids, places := make([]int64, len(stems)), make([]int64, len(stems))
	numbered := true
	for i, stem := range stems {
		id, err := strconv.ParseInt(stem, 10, 64)
		numbered = numbered && err == nil && !slices.Contains(ids[:i], id)
		ids[i], places[i] = id, int64(i+1)
	}
	if numbered {
		return ids
	}
	return places
}

// drawFound writes the picture of an image and returns the objects in it, the best first.
func drawFound(model *finetune.DetectionModel, photo *datasets.SegmentedImage, found []finetune.Found, least float64, path string) (string, error) {
	var objects []figures.Object
	var names []string
	for _, f := range found {
		if f.Score < least {
			continue
		}
		text := fmt.Sprintf("%s %.2f", model.Categories[f.Class].Name, f.Score)
		objects, names = append(objects, figures.Object{Box: f.Box, Mask: f.Mask, Class: f.Class, Label: text}), append(names, text)
	}
	const readable = 320 // The side from which labels leave something of the picture.
	scale := max(1, readable/max(photo.Height, photo.Width))
	if err := writePNG(path, figures.DrawObjects(photo.Image(), objects, scale)); err != nil {
		return "", err
	}
	if len(names) == 0 {
		return fmt.Sprintf("no object of a score of at least %g", least), nil
	}
	return strings.Join(names, ", "), nil
}
