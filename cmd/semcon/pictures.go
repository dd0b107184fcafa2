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
	"github.com/semcon/semcon/sccore"
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
const inputsHelp = "Images are files, folders, patterns such as 'photos/*.jpg', and lists: files with one path per line, or - for such a list on standard input."

// findImages returns the paths of the images that the arguments of a verb name, and says which files are ignored.
func findImages(inputs []string) []string {
	refuse(len(inputs) == 0, "want at least one image: files, folders, patterns or lists")
	paths, skipped, err := datasets.FindImages(inputs...)
	for _, s := range skipped {
		fmt.Fprintf(os.Stderr, "ignored %s: %s\n", s.File, s.Reason)
	}
	return try.E1(paths, err)
}

// sayUnread says which images cannot be read, and why, beside so many that can. It ends the verb with an error if there is none.
func sayUnread(inputs, unread []string, read int) {
	for _, why := range unread {
		fmt.Fprintf(os.Stderr, "skipped %s\n", why)
	}
	fail(read == 0, "none of the images in %s can be read: %s", strings.Join(inputs, ", "), lo.FirstOrEmpty(unread))
	if len(unread) > 0 {
		fmt.Fprintf(os.Stderr, "skipped %d of %s\n", len(unread), plural.Count(len(unread)+read, "image"))
	}
}

// readable leaves out the images that cannot be read, and says which.
func readable(inputs, paths []string) (read []string) {
	var unread []string
	for _, path := range paths {
		if _, err := datasets.ReadPhoto(path); err != nil {
			unread = append(unread, err.Error())
			continue
		}
		read = append(read, path)
	}
	sayUnread(inputs, unread, len(read))
	return read
}

// drawnAtOnce bounds how many images of folders, patterns and lists are drawn in one picture.
const drawnAtOnce = 16

// fewImages is [findImages] of a verb that draws all images at once, with a file of weights. Of many images it takes some, evenly spread, and says so.
func fewImages(file string, inputs []string) (some []string) {
	paths := findImages(inputs)
	requireWeights(file)
	if len(paths) <= max(len(inputs), drawnAtOnce) {
		return paths
	}
	some = lo.Map(datasets.Spread(len(paths), drawnAtOnce), func(place, _ int) string { return paths[place] })
	fmt.Fprintf(os.Stderr, "draws %d of the %d images, evenly spread; name images to choose\n", len(some), len(paths))
	return some
}

// requireWhole ends the verb with an error if images of --size pixels are not made of whole patches.
func requireWhole(size, patch int) {
	refuse(size < patch || size%patch != 0, "--size %d is not a multiple of the transformer's patches of %d", size, patch)
}

func showVerb(c *cobra.Command, flags flagTexts) {
	var f struct {
		Weights, Out string
		Size         int
		Point        []string
	}
	flags.bind(c, &f)
	c.Run = func(c *cobra.Command, inputs []string) {
		var paths []string
		example := len(inputs) == 0 && f.Weights == ""
		if !example {
			paths = fewImages(f.Weights, inputs)
		}
		var points []features.Point
		for _, text := range f.Point {
			var at features.Point
			n, err := fmt.Sscanf(text+"\n", "%g,%g\n", &at.X, &at.Y)
			inside := at.X >= 0 && at.X < 1 && at.Y >= 0 && at.Y < 1
			refuse(n != 2 || err != nil || !inside, "--point %s: want X,Y from 0 up to 1, such as 0.5,0.3", text)
			points = append(points, at)
		}
		requireWritable("out", f.Out)
		for _, name := range []string{"pca", "nearest", "points", "attention"} {
			requireInputsKept("out", filepath.Join(f.Out, name+".png"), paths...)
		}
		if example {
			paths, f.Weights = try.E2(ownimages.Example(f.Out))
			fmt.Printf("no image and no weights: %s, and a small encoder that was trained on drawn scenes, %s\n", strings.Join(paths, ", "), f.Weights)
		} else {
			locateFlag(c, "weights", &f.Weights)
		}
		patch := try.E1(sccore.EncoderOf(f.Weights)).PatchSize
		requireWhole(cmp.Or(f.Size, patch), patch)
		paths = readable(inputs, paths)
		for _, drawn := range try.E1(ownimages.Show(openEngine(), f.Weights, paths, f.Size, points...)) {
			try.E(figures.SaveFigure(f.Out, drawn.Name, drawn.Figure))
			fmt.Printf("wrote %s\n", filepath.Join(f.Out, drawn.Name+".png"))
		}
		if len(paths) == 1 {
			os.Remove(filepath.Join(f.Out, "nearest.png")) // Of an earlier call.
			os.Remove(filepath.Join(f.Out, "nearest.svg"))
			fmt.Println("no nearest.png: it compares each image with the next, and there is one image")
		} else {
			fmt.Printf("nearest.png compares each image with the next, so it has no row for %s\n", paths[len(paths)-1])
		}
	}
}

func attentionVerb(c *cobra.Command, flags flagTexts) {
	var f struct {
		Weights, Out      string
		Size, Self, Cross int
	}
	choice := weightFlags(c, flags, &f)
	c.Run = func(c *cobra.Command, inputs []string) {
		paths := fewImages(f.Weights, inputs)
		err := figures.CheckFormat(f.Out)
		refuse(err != nil, "--out %v", err)
		locateFlag(c, "weights", &f.Weights)
		requireWritableFile("out", f.Out, append(paths, f.Weights)...)
		v := choice.open(f.Weights)
		if c.Flags().Changed("size") {
			v.size = f.Size
		}
		requireWhole(v.size, v.ViT.PatchSize)
		images := lo.Map(readable(inputs, paths), func(path string, _ int) evaluation.Image { return try.E1(v.readImage(path)) })
		encoder := v.encoder(openEngine(), 1)
		defer encoder.Close()
		sheet := try.E1(features.AttentionMaps{Heads: f.Self, Filter: f.Cross}.Draw(encoder.FeatureExtractor, images))
		try.E(c.Context().Err())
		try.E(figures.SaveAs(filepath.Clean(f.Out), sheet))
		fmt.Printf("wrote %s: %s of %s, from %s\n", f.Out, plural.Count(len(sheet.Images)-1, "map"), plural.Count(len(images), "image"), v.ViT.Name)
	}
}

// modelDrawing draws images one by one with a fine-tuned model.
type modelDrawing struct {
	Weights, Out string
	title        string
	paths, stems []string // Of the images: their files, and their names without folder and ending.
}

// open finds the images whose pictures have these endings, and opens the engine. No picture may replace an image or the picture of another image.
func (d *modelDrawing) open(inputs []string, endings ...string) compute.Backend {
	refuse(len(inputs) > 0 && d.Weights == "", "--weights FILE is missing")
	d.paths = findImages(inputs)
	for _, path := range d.paths {
		stem := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
		if i := slices.Index(d.stems, stem); i >= 0 {
			try.E(usagef("%s and %s would both become %s%s", d.paths[i], path, stem, endings[0]))
		}
		d.stems = append(d.stems, stem)
	}
	requireWritable("out", d.Out)
	names := lo.Map(d.paths, func(path string, _ int) string { return strings.ToLower(filepath.Base(path)) })
	for _, stem := range d.stems {
		for _, ending := range endings {
			if slices.Contains(names, strings.ToLower(stem+ending)) {
				requireInputsKept("out", filepath.Join(d.Out, stem+ending), d.paths...)
			}
		}
	}
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
	fmt.Printf("wrote pictures of %s into %s\n", plural.Count(len(d.paths)-len(failed), "image"), d.Out)
	return errors.Join(failed...)
}

func segmentVerb(c *cobra.Command, flags flagTexts) {
	d := modelDrawing{title: c.Name()}
	flags.bind(c, &d)
	c.Run = func(c *cobra.Command, inputs []string) {
		engine := d.open(inputs, "_mask.png", "_overlay.png")
		model := try.E1(finetune.OpenSegmentationModel(engine, d.Weights))
		defer model.Close()
		about := fmt.Sprintf("%s on %s: %s", model.Segmenter.ViT.Name, model.Dataset, strings.Join(model.Classes, ", "))
		try.E(d.each(c.Context(), about, func(i int, photo *datasets.SegmentedImage) string {
			return drawClasses(model, photo, try.E1(model.Inference.Predict(c.Context(), photo, model.Segment)), filepath.Join(d.Out, d.stems[i]))
		}))
	}
}

// drawClasses writes the pictures of an image and returns the shares of its classes, the largest first.
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

func detectVerb(c *cobra.Command, flags flagTexts) {
	d := modelDrawing{title: c.Name()}
	var f struct{ Score float64 }
	flags.bind(c, &d, &f)
	c.Run = func(c *cobra.Command, inputs []string) {
		engine := d.open(inputs, "_objects.png")
		model := try.E1(finetune.OpenDetectionModel(engine, d.Weights))
		defer model.Close()
		ids := imageIDs(d.stems)
		var results []metrics.Detection
		about := fmt.Sprintf("%s on %s: %s", model.Detector.ViT.Name, model.Dataset, plural.Count(len(model.Categories), "class"))
		failed := d.each(c.Context(), about, func(i int, photo *datasets.SegmentedImage) string {
			found := try.E1(model.Inference.Predict(c.Context(), photo, model.Detect))
			summary := drawFound(model, photo, found, f.Score, filepath.Join(d.Out, d.stems[i]+"_objects.png"))
			results = append(results, finetune.Results(found, ids[i], model.Categories)...)
			return summary
		})
		try.E(errors.Join(failed, metrics.WriteDetections(filepath.Join(d.Out, "results.json"), results)))
	}
}

// imageIDs returns the numbers of images in results: their names, or their places if a name is no number.
func imageIDs(stems []string) (ids []int64) {
	ids = lo.Uniq(lo.FilterMap(stems, func(stem string, _ int) (int64, bool) {
		id, err := strconv.ParseInt(stem, 10, 64)
		return id, err == nil
	}))
	return lo.Ternary(len(ids) < len(stems), lo.RangeFrom(int64(1), len(stems)), ids)
}

// drawFound writes the picture of an image and returns the objects in it, the best first.
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
