package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/dsnet/try"
	"github.com/gomlx/compute"
	"github.com/samber/lo"
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

// findImages returns the paths of the images that the arguments of a verb name, and says which files are ignored. It ends the verb with an error.
func findImages(inputs []string) []string {
	refuse(len(inputs) == 0, "want at least one image: files, folders, patterns or lists")
	paths, skipped, err := datasets.FindImages(inputs...)
	for _, s := range skipped {
		fmt.Fprintf(os.Stderr, "ignored %s: %s\n", s.File, s.Reason)
	}
	return try.E1(paths, err)
}

// drawnAtOnce bounds how many images of folders, patterns and lists are drawn in one picture.
const drawnAtOnce = 16

// fewImages is [findImages] of a verb that draws all images at once, with a file of weights. Of many images it takes some, evenly spread, and says so.
func fewImages(file string, inputs []string) (some []string) {
	if len(inputs) > 0 {
		requireWeights(file)
	}
	paths := findImages(inputs)
	if len(paths) <= max(len(inputs), drawnAtOnce) {
		return paths
	}
	some = lo.Map(datasets.Spread(len(paths), drawnAtOnce), func(place, _ int) string { return paths[place] })
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
	c.Run = func(c *cobra.Command, inputs []string) {
		var paths []string
		example := len(inputs) == 0 && *file == ""
		if !example {
			paths = fewImages(*file, inputs)
		}
		var points []features.Point
		for _, text := range *places {
			var at features.Point
			n, err := fmt.Sscanf(text+"\n", "%g,%g\n", &at.X, &at.Y)
			inside := at.X >= 0 && at.X < 1 && at.Y >= 0 && at.Y < 1
			refuse(n != 2 || err != nil || !inside, "--point %s: want X,Y from 0 up to 1, such as 0.5,0.3", text)
			points = append(points, at)
		}
		refuse(*size < 0 || *size > 2048, "--size %d is not between 1 and 2048", *size)
		requireWritable("out", *out)
		if example {
			paths = make([]string, 1)
			paths[0], *file = try.E2(ownimages.Example(*out))
			fmt.Printf("no image and no weights: %s, and a small encoder that was trained on drawn scenes, %s\n", paths[0], *file)
		} else {
			locateFlag(c, "weights", file)
		}
		for _, f := range try.E1(ownimages.Show(openEngine(), *file, paths, *size, points...)) {
			try.E(figures.SaveFigure(*out, f.Name, f.Figure))
			fmt.Printf("wrote %s\n", filepath.Join(*out, f.Name+".png"))
		}
		if len(paths) == 1 {
			fmt.Println("no nearest.png: it compares each image with the next, and there is one image")
		} else {
			fmt.Printf("nearest.png compares each image with the next, so it has no row for %s\n", paths[len(paths)-1])
		}
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
	c.Run = func(c *cobra.Command, inputs []string) {
		paths := fewImages(*file, inputs)
		refuse(maps.Heads < 0 || maps.Filter < 0, "--self %d, --cross %d: want numbers from 0", maps.Heads, maps.Filter)
		err := figures.CheckFormat(*out)
		refuse(err != nil, "--out %v", err)
		locateFlag(c, "weights", file)
		requireWritableFile("out", *out)
		v := choice.open(*file)
		if c.Flags().Changed("size") {
			v.size = *size
		}
		patch := v.ViT.PatchSize
		refuse(v.size < patch || v.size%patch != 0, "--size %d is not a multiple of the transformer's patches of %d", v.size, patch)
		images := lo.Map(paths, func(path string, _ int) evaluation.Image { return try.E1(v.readImage(path)) })
		encoder := v.encoder(openEngine(), 1)
		defer encoder.Close()
		sheet := try.E1(maps.Draw(encoder.FeatureExtractor, images))
		try.E(c.Context().Err())
		try.E(figures.SaveAs(filepath.Clean(*out), sheet))
		fmt.Printf("wrote %s: %s of %s, from %s\n", *out, plural.Count(len(sheet.Images)-1, "map"), plural.Count(len(images), "image"), v.ViT.Name)
	}
	return c
}

// modelFlags adds the flags of a verb that draws with a fine-tuned model, and completes what its help says.
func modelFlags(c *cobra.Command, what, experiment, folder, out string) (d *modelDrawing) {
	d = &modelDrawing{title: c.Name()}
	c.Long = strings.ToUpper(c.Short[:1]) + c.Short[1:] + ". " + inputsHelp
	c.Flags().StringVar(&d.file, "weights", "", fmt.Sprintf("`FILE` of a fine-tuned %s, as \"semcon run %s\" leaves it", what, experiment))
	c.Flags().StringVar(&d.out, "out", folder, "`FOLDER` for the pictures"+out)
	return d
}

// modelDrawing draws images one by one with a fine-tuned model.
type modelDrawing struct {
	title, file, out string
	paths, stems     []string // Of the images: their files, and their names without folder and ending.
}

// open finds the images of which the pictures end so, and opens the engine. Two images with one name would overwrite each other's pictures. It ends the verb with
// an error.
func (d *modelDrawing) open(inputs []string, ending string) compute.Backend {
	refuse(len(inputs) > 0 && d.file == "", "--weights FILE is missing")
	d.paths = findImages(inputs)
	for _, path := range d.paths {
		stem := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
		if i := slices.Index(d.stems, stem); i >= 0 {
			try.E(usagef("%s and %s would both become %s%s", d.paths[i], path, stem, ending))
		}
		d.stems = append(d.stems, stem)
	}
	requireWritable("out", d.out)
	return try.E1(backend.Open())
}

// each says what the model is, reads the images in turn, and prints for each what predict says of it, and last how many have pictures. It goes on after a failure.
func (d *modelDrawing) each(ctx context.Context, about string, predict func(i int, photo *datasets.SegmentedImage) string) error {
	fmt.Fprintf(os.Stderr, "engine: %s\n%s\n", backend.Engine(), about)
	bar := progress.New(os.Stderr, d.title, len(d.paths))
	defer bar.Close()
	var failed []error
	for i, path := range d.paths {
		var summary string
		err := ended(func() { summary = predict(i, try.E1(datasets.ReadPhoto(path))) })
		try.E(ctx.Err())
		if bar.Set(i+1, path); err != nil {
			failed = append(failed, err)
			continue
		}
		fmt.Printf("%s: %s\n", path, summary)
	}
	fmt.Printf("wrote pictures of %s into %s\n", plural.Count(len(d.paths)-len(failed), "image"), d.out)
	return errors.Join(failed...)
}

func segmentVerb() *cobra.Command {
	c := &cobra.Command{
		Use: "segment IMAGES…", Short: "draw the classes of images' pixels with a fine-tuned model",
		Example: "semcon segment street.jpg park.png --weights out/fine-tune/cells/synthetic/second/upernet/seed0-…/model.safetensors --out masks",
	}
	d := modelFlags(c, "model", "fine-tune", "masks", ": NAME_mask.png holds the classes, NAME_overlay.png shows them on the image, with their names below")
	c.Run = func(c *cobra.Command, inputs []string) {
		engine := d.open(inputs, "_mask.png")
		model := try.E1(finetune.OpenSegmentationModel(engine, d.file))
		defer model.Close()
		about := fmt.Sprintf("%s on %s: %s", model.Segmenter.ViT.Name, model.Dataset, strings.Join(model.Classes, ", "))
		try.E(d.each(c.Context(), about, func(i int, photo *datasets.SegmentedImage) string {
			return drawClasses(model, photo, try.E1(model.Inference.Predict(c.Context(), photo, model.Segment)), filepath.Join(d.out, d.stems[i]))
		}))
	}
	return c
}

// drawClasses writes the pictures of an image and returns the shares of its classes, the largest first. It ends the verb with an error.
func drawClasses(model *finetune.SegmentationModel, photo *datasets.SegmentedImage, classes []uint8, stem string) string {
	mask := &image.Paletted{Pix: classes, Stride: photo.Width, Rect: image.Rect(0, 0, photo.Width, photo.Height), Palette: datasets.Palette(model.Colours)}
	overlay := photo.Image()
	draw.DrawMask(overlay, mask.Rect, mask, image.Point{}, image.NewUniform(color.Alpha{128}), image.Point{}, draw.Over)
	counts := lo.CountValues(classes)
	largestFirst := func(a, b uint8) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) }
	var shares []string
	var colours []color.RGBA
	for _, class := range slices.SortedFunc(maps.Keys(counts), largestFirst) {
		shares = append(shares, fmt.Sprintf("%s %.1f %%", model.Classes[class], 100*float64(counts[class])/float64(len(classes))))
		colours = append(colours, color.RGBAModel.Convert(mask.Palette[class]).(color.RGBA))
	}
	writePNG(stem+"_mask.png", mask)
	writePNG(stem+"_overlay.png", figures.Labelled(overlay, shares, colours))
	return strings.Join(shares, ", ")
}

func writePNG(path string, picture image.Image) {
	try.E(atomicfile.Write(path, func(w io.Writer) error { return png.Encode(w, picture) }))
}

// resultsName is the result file's name.
const resultsName = "results.json"

func detectVerb() *cobra.Command {
	c := &cobra.Command{
		Use: "detect IMAGES…", Short: "find the objects in images with a fine-tuned detector: pictures with boxes and masks, and COCO's result file",
		Example: "semcon detect street.jpg park.png --weights out/detection/cells/synthetic/second/seed0-…/model.safetensors --out detections",
	}
	d := modelFlags(c, "detector", "detection", "detections", ", NAME_objects.png, and for "+resultsName+", COCO's format: image_id is the number in the "+
		"image's name, as in COCO, or, if a name is not a number, the image's place in the call, from 1")
	score := c.Flags().Float64("score", 0.5, "lowest `SCORE`, from 0 to 1, of the objects that are drawn and counted; "+resultsName+" has all above 0.05")
	c.Run = func(c *cobra.Command, inputs []string) {
		refuse(!(*score >= 0 && *score <= 1), "--score %g is not between 0 and 1", *score)
		engine := d.open(inputs, "_objects.png")
		model := try.E1(finetune.OpenDetectionModel(engine, d.file))
		defer model.Close()
		ids := imageIDs(d.stems)
		var results []metrics.Detection
		about := fmt.Sprintf("%s on %s: %s", model.Detector.ViT.Name, model.Dataset, plural.Count(len(model.Categories), "class"))
		failed := d.each(c.Context(), about, func(i int, photo *datasets.SegmentedImage) string {
			found := try.E1(model.Inference.Predict(c.Context(), photo, model.Detect))
			summary := drawFound(model, photo, found, *score, filepath.Join(d.out, d.stems[i]+"_objects.png"))
			results = append(results, finetune.Results(found, ids[i], model.Categories)...)
			return summary
		})
		try.E(errors.Join(failed, metrics.WriteDetections(filepath.Join(d.out, resultsName), results)))
	}
	return c
}

// imageIDs returns the numbers of images in results: their names, or their places if a name is no number.
func imageIDs(stems []string) (ids []int64) {
	ids = lo.Uniq(lo.FilterMap(stems, func(stem string, _ int) (int64, bool) {
		id, err := strconv.ParseInt(stem, 10, 64)
		return id, err == nil
	}))
	return lo.Ternary(len(ids) < len(stems), lo.RangeFrom(int64(1), len(stems)), ids)
}

// drawFound writes the picture of an image and returns the objects in it, the best first. It ends the verb with an error.
func drawFound(model *finetune.DetectionModel, photo *datasets.SegmentedImage, found []finetune.Found, least float64, path string) string {
	var objects []figures.Object
	var names []string
	for _, f := range lo.Filter(found, func(f finetune.Found, _ int) bool { return f.Score >= least }) {
		text := fmt.Sprintf("%s %.2f", model.Categories[f.Class].Name, f.Score)
		objects, names = append(objects, figures.Object{Box: f.Box, Mask: f.Mask, Class: f.Class, Label: text}), append(names, text)
	}
	const readable = 320 // The side from which labels leave something of the picture.
	writePNG(path, figures.DrawObjects(photo.Image(), objects, max(1, readable/max(photo.Height, photo.Width))))
	return cmp.Or(strings.Join(names, ", "), fmt.Sprintf("no object of a score of at least %g", least))
}
