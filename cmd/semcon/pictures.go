package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/janpfeifer/must"
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
	"github.com/spf13/cobra"
)

// inputsHelp says what a verb takes as images.
const inputsHelp = "Images are files, folders, patterns such as 'photos/*.jpg', and lists: files with the path of an image in each line, or - for such a list on standard input."

// imagesWith is [findImages] of a verb with a flag of weights, without which the error is missing.
func imagesWith(file string, missing error, inputs []string) ([]string, error) {
	if len(inputs) > 0 && file == "" {
		return nil, missing
	}
	return findImages(inputs)
}

// findImages returns the paths of the images that the arguments of a verb name, and says which files are ignored.
func findImages(inputs []string) ([]string, error) {
	if len(inputs) == 0 {
		return nil, usagef("want at least one image: files, folders, patterns or lists")
	}
	paths, skipped, err := datasets.FindImages(inputs...)
	for _, s := range skipped {
		fmt.Fprintf(os.Stderr, "ignored %s: %s\n", s.File, s.Reason)
	}
	return paths, err
}

// drawnAtOnce bounds how many images of folders, patterns and lists are drawn in one picture.
const drawnAtOnce = 16

// fewImages takes some of many images, evenly spread, and says so.
func fewImages(paths []string, inputs int) (some []string) {
	if len(paths) <= max(inputs, drawnAtOnce) {
		return paths
	}
	for _, i := range datasets.Spread(len(paths), drawnAtOnce) {
		some = append(some, paths[i])
	}
	fmt.Fprintf(os.Stderr, "draws %d of the %d images, evenly spread; name images to choose\n", len(some), len(paths))
	return some
}

func showVerb() *cobra.Command {
	c := &cobra.Command{
		Use: "show [IMAGES…]", Short: "draw what weights see in images: principal components, nearest patches, attention of [CLS]",
		Long:    "Draw what weights see in images: principal components, nearest patches, attention of [CLS]. Without arguments, what a small encoder sees in a photograph of a cat. " + inputsHelp,
		Example: "semcon show\nsemcon show photos --weights runs/photos/encoder.safetensors --out pictures\nsemcon show dog.jpg --weights facebook/dino-vits16 --point 0.5,0.3",
	}
	file := weightsFlag(c)
	out := c.Flags().String("out", "pictures", "`FOLDER` for the pictures, .svg and .png")
	size := c.Flags().Int("size", 0, "`PIXELS` of the height and width that images are cropped to; by default 224 or the nearest that the patches fit")
	places := c.Flags().StringArray("point", nil, "also draw where patches are like the one at `X,Y` of the first image, in shares of its width and height: 0.5,0.5 is the middle; may be repeated")
	c.RunE = func(c *cobra.Command, inputs []string) error {
		var paths []string
		example := len(inputs) == 0 && *file == ""
		if !example {
			paths = fewImages(must.M1(imagesWith(*file, noWeights(), inputs)), len(inputs))
		}
		var points []features.Point
		for _, text := range *places {
			var at features.Point
			if n, err := fmt.Sscanf(text+"\n", "%g,%g\n", &at.X, &at.Y); n != 2 || err != nil || !(at.X >= 0 && at.X < 1 && at.Y >= 0 && at.Y < 1) {
				return usagef("--point %s: want X,Y from 0 up to 1, such as 0.5,0.3", text)
			}
			points = append(points, at)
		}
		if *size < 0 || *size > 2048 {
			return usagef("--size %d is not between 1 and 2048", *size)
		}
		must.M(requireWritable("out", *out))
		if example {
			paths = make([]string, 1)
			paths[0], *file = must.M2(ownimages.Example(*out))
			fmt.Printf("no image and no weights: %s, and a small encoder that was trained on drawn scenes, %s\n", paths[0], *file)
		} else {
			must.M(locateFlag(c, "weights", file))
		}
		for _, f := range must.M1(ownimages.Show(must.M1(openEngine()), *file, paths, *size, points...)) {
			must.M(figures.SaveFigure(*out, f.Name, f.Figure))
			fmt.Printf("wrote %s\n", filepath.Join(*out, f.Name+".png"))
		}
		if len(paths) == 1 {
			fmt.Println("no nearest.png: it compares each image with the next, and there is one image")
		} else {
			fmt.Printf("nearest.png compares each image with the next, so it has no row for %s\n", paths[len(paths)-1])
		}
		return nil
	}
	return c
}

func attentionVerb() *cobra.Command {
	c := &cobra.Command{
		Use: "attention IMAGES…", Short: "draw what a transformer's heads and its filter attend to",
		Long: "Draw what a transformer's heads and its filter attend to. " + inputsHelp,
		Example: "semcon attention cat.jpg street.png --weights dino_deitsmall16_pretrain.pth --out attention.png\n" +
			"semcon attention cat.jpg --weights out/pretrain/cells/synthetic/seed0-…/second/online.safetensors --self 0 --cross 0 --out attention.svg",
	}
	choice, file := addWeightFlags(c), weightsFlag(c)
	out := c.Flags().String("out", "attention.png", "`FILE` of the figure: .png, .svg or .pdf")
	size := c.Flags().Int("size", 224, "`PIXELS` of the height and width of the crop of an image; by default as the weights' makers have it")
	maps := features.AttentionMaps{}
	c.Flags().IntVar(&maps.Heads, "self", 3, "`NUMBER` of self-attention maps, from the first heads of [CLS]; 0 for all")
	c.Flags().IntVar(&maps.Filter, "cross", 3, "`NUMBER` of cross-attention maps of the filter, those that vary most; 0 for all")
	c.RunE = func(c *cobra.Command, inputs []string) error {
		paths := fewImages(must.M1(imagesWith(*file, noWeights(), inputs)), len(inputs))
		if maps.Heads < 0 || maps.Filter < 0 {
			return usagef("--self %d, --cross %d: want numbers from 0", maps.Heads, maps.Filter)
		}
		if err := figures.CheckFormat(*out); err != nil {
			return usagef("--out %v", err)
		}
		must.M(locateFlag(c, "weights", file))
		must.M(requireWritableFile("out", *out))
		v := must.M1(choice.open(*file))
		if c.Flags().Changed("size") {
			v.size = *size
		}
		if patch := v.ViT.PatchSize; v.size < patch || v.size%patch != 0 {
			return usagef("--size %d is not a multiple of the transformer's patches of %d", v.size, patch)
		}
		var images []evaluation.Image
		for _, path := range paths {
			images = append(images, must.M1(v.readImage(path)))
		}
		encoder := must.M1(v.encoder(must.M1(openEngine()), 1))
		defer encoder.Close()
		sheet := must.M1(maps.Draw(encoder.FeatureExtractor, images))
		must.M(c.Context().Err())
		must.M(figures.SaveAs(filepath.Clean(*out), sheet))
		fmt.Printf("wrote %s: %s of %s, from %s\n", *out, plural.Count(len(sheet.Images)-1, "map"), plural.Count(len(images), "image"), v.ViT.Name)
		return nil
	}
	return c
}

// errNoModel is the error of a missing file of a fine-tuned model.
var errNoModel = usagef("--weights FILE is missing")

func segmentVerb() *cobra.Command {
	c := &cobra.Command{
		Use: "segment IMAGES…", Short: "draw the classes of images' pixels with a fine-tuned model",
		Long:    "Draw the classes of images' pixels with a fine-tuned model. " + inputsHelp,
		Example: "semcon segment street.jpg park.png --weights out/fine-tune/cells/synthetic/second/upernet/seed0-…/model.safetensors --out masks",
	}
	file := c.Flags().String("weights", "", "`FILE` of a fine-tuned model, as \"semcon run fine-tune\" leaves it")
	out := c.Flags().String("out", "masks", "`FOLDER` for the pictures: NAME_mask.png holds the classes, NAME_overlay.png shows them on the image, with their names below")
	c.RunE = func(c *cobra.Command, inputs []string) error {
		paths := must.M1(imagesWith(*file, errNoModel, inputs))
		stems := must.M1(stemsOf(paths, "_mask.png"))
		must.M(requireWritable("out", *out))
		model := must.M1(finetune.OpenSegmentationModel(must.M1(backend.Open()), *file))
		defer model.Close()
		fmt.Fprintf(os.Stderr, "engine: %s\n%s on %s: %s\n", backend.Engine(), model.Segmenter.ViT.Name, model.Dataset, strings.Join(model.Classes, ", "))
		return eachImage(c.Context(), "segment", *out, paths, func(i int, photo *datasets.SegmentedImage) (string, error) {
			classes, err := model.Inference.Predict(c.Context(), photo, model.Segment)
			if err != nil {
				return "", err
			}
			return drawClasses(model, photo, classes, filepath.Join(*out, stems[i]))
		})
	}
	return c
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

// eachImage reads images in turn, and prints for each what predict says of it, and last how many have pictures in the folder out. It goes on after a failure.
func eachImage(ctx context.Context, title, out string, paths []string, predict func(i int, photo *datasets.SegmentedImage) (string, error)) error {
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
	fmt.Printf("wrote pictures of %s into %s\n", plural.Count(len(paths)-len(failed), "image"), out)
	return errors.Join(failed...)
}

// drawClasses writes the pictures of an image and returns the shares of its classes, the largest first.
func drawClasses(model *finetune.SegmentationModel, photo *datasets.SegmentedImage, classes []uint8, stem string) (string, error) {
	mask := &image.Paletted{Pix: classes, Stride: photo.Width, Rect: image.Rect(0, 0, photo.Width, photo.Height), Palette: datasets.Palette(model.Colours)}
	overlay := photo.Image()
	draw.DrawMask(overlay, mask.Rect, mask, image.Point{}, image.NewUniform(color.Alpha{128}), image.Point{}, draw.Over)
	counts := map[uint8]int{}
	for _, class := range classes {
		counts[class]++
	}
	largestFirst := func(a, b uint8) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) }
	var shares []string
	var colours []color.RGBA
	for _, class := range slices.SortedFunc(maps.Keys(counts), largestFirst) {
		shares = append(shares, fmt.Sprintf("%s %.1f %%", model.Classes[class], 100*float64(counts[class])/float64(len(classes))))
		colours = append(colours, color.RGBAModel.Convert(mask.Palette[class]).(color.RGBA))
	}
	return strings.Join(shares, ", "), errors.Join(writePNG(stem+"_mask.png", mask), writePNG(stem+"_overlay.png", figures.Labelled(overlay, shares, colours)))
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

func detectVerb() *cobra.Command {
	c := &cobra.Command{
		Use: "detect IMAGES…", Short: "find the objects in images with a fine-tuned detector: pictures with boxes and masks, and COCO's result file",
		Long:    "Find the objects in images with a fine-tuned detector: pictures with boxes and masks, and COCO's result file. " + inputsHelp,
		Example: "semcon detect street.jpg park.png --weights out/detection/cells/synthetic/second/seed0-…/model.safetensors --out detections",
	}
	file := c.Flags().String("weights", "", "`FILE` of a fine-tuned detector, as \"semcon run detection\" leaves it")
	out := c.Flags().String("out", "detections", "`FOLDER` for the pictures, NAME_objects.png, and for "+resultsName+", COCO's format: image_id is the number in the "+
		"image's name, as in COCO, or, if a name is not a number, the image's place in the call, from 1")
	score := c.Flags().Float64("score", 0.5, "lowest `SCORE`, from 0 to 1, of the objects that are drawn and counted; "+resultsName+" has all above 0.05")
	c.RunE = func(c *cobra.Command, inputs []string) error {
		paths := must.M1(imagesWith(*file, errNoModel, inputs))
		if !(*score >= 0 && *score <= 1) {
			return usagef("--score %g is not between 0 and 1", *score)
		}
		stems := must.M1(stemsOf(paths, "_objects.png"))
		must.M(requireWritable("out", *out))
		model := must.M1(finetune.OpenDetectionModel(must.M1(backend.Open()), *file))
		defer model.Close()
		fmt.Fprintf(os.Stderr, "engine: %s\n%s on %s: %s\n", backend.Engine(), model.Detector.ViT.Name, model.Dataset, plural.Count(len(model.Categories), "class"))
		ids := imageIDs(stems)
		var results []metrics.Detection
		failed := eachImage(c.Context(), "detect", *out, paths, func(i int, photo *datasets.SegmentedImage) (string, error) {
			found, err := model.Inference.Predict(c.Context(), photo, model.Detect)
			if err != nil {
				return "", err
			}
			summary, err := drawFound(model, photo, found, *score, filepath.Join(*out, stems[i]+"_objects.png"))
			if err == nil {
				results = append(results, finetune.Results(found, ids[i], model.Categories)...)
			}
			return summary, err
		})
		must.M(c.Context().Err())
		return errors.Join(failed, metrics.WriteDetectionsFile(filepath.Join(*out, resultsName), results))
	}
	return c
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
