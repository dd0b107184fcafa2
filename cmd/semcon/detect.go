package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image/png"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/internal/plural"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/finetune"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/progress"
)

var detectVerb = verb{
	name:    "detect",
	summary: "find the objects in images with a fine-tuned detector: pictures with boxes and masks, and COCO's result file",
	args:    "IMAGE…",
	example: "semcon detect street.jpg park.png --weights out/detection/cells/synthetic/second/seed0-…/model.safetensors --out detections",
	run:     runDetect,
}

// resultsName is the result file's name.
const resultsName = "results.json"

func runDetect(ctx context.Context, args []string) error {
	flags := newFlags("detect")
	file := flags.String("weights", "", "`FILE` of a fine-tuned detector, as \"semcon run detection\" leaves it")
	out := flags.String("out", "detections", "`FOLDER` for the pictures, NAME_objects.png, and for "+resultsName+", COCO's format: image_id is the number in the "+
		"image's name, as in COCO, or, if a name is not a number, the image's place in the call, from 1")
	score := flags.Float64("score", 0.5, "lowest `SCORE`, from 0 to 1, of the objects that are drawn and counted; "+resultsName+" has all above 0.05")
	paths, err := parse(flags, args)
	switch {
	case err != nil:
		return err
	case len(paths) == 0:
		return usagef("want at least one image")
	case *file == "":
		return usagef("--weights FILE is missing")
	case !(*score >= 0 && *score <= 1):
		return usagef("--score %g is not between 0 and 1", *score)
	}
	stems, err := stemsOf(paths, "_objects.png")
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
	model, err := finetune.OpenDetectionModel(engine, *file)
	if err != nil {
		return err
	}
	defer model.Close()
	if err := os.MkdirAll(*out, 0o755); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	fmt.Fprintf(os.Stderr, "engine: %s\n%s on %s: %s\n", backend.Engine(), model.Detector.ViT.Name, model.Dataset, plural.Count(len(model.Categories), "class"))
	bar := progress.New(os.Stderr, "detect", len(paths))
	defer bar.Close()
	ids := imageIDs(stems)
	var failed []error
	var results []metrics.Detection
	for i, path := range paths {
		photo, err := datasets.ReadPhoto(path)
		var found []finetune.Found
		if err == nil {
			found, err = model.Inference.Predict(ctx, photo, model.Detect)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var summary string
		if err == nil {
			summary, err = drawFound(model, photo, found, *score, filepath.Join(*out, stems[i]+"_objects.png"))
		}
		bar.Set(i+1, path)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		results = append(results, finetune.Results(found, ids[i], model.Categories)...)
		fmt.Printf("%s: %s\n", path, summary)
	}
	if err := metrics.WriteDetectionsFile(filepath.Join(*out, resultsName), results); err != nil {
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// imageIDs returns the numbers of images in results.
func imageIDs(stems []string) []int64 {
	ids, seen := make([]int64, len(stems)), map[int64]bool{}
	for i, stem := range stems {
		id, err := strconv.ParseInt(stem, 10, 64)
		if err != nil || seen[id] {
			for i := range ids {
				ids[i] = int64(i + 1)
			}
			return ids
		}
		ids[i], seen[id] = id, true
	}
	return ids
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
	var encoded bytes.Buffer
	if err := png.Encode(&encoded, figures.DrawObjects(photo.Image(), objects, scale)); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	if err := atomicfile.WriteBytes(path, encoded.Bytes()); err != nil {
		return "", err
	}
	if len(names) == 0 {
		return fmt.Sprintf("no object of a score of at least %g", least), nil
	}
	return strings.Join(names, ", "), nil
}
