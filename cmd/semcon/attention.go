package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/figures/features"
	"github.com/semcon/semcon/internal/plural"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/weights"
)

var attentionVerb = verb{
	name:    "attention",
	summary: "draw what a transformer's heads and its filter attend to",
	args:    "IMAGE…",
	example: "semcon attention cat.jpg street.png --weights dino_deitsmall16_pretrain.pth --out attention.png\n" +
		"semcon attention cat.jpg --weights out/pretrain/cells/synthetic/seed0-…/second/online.safetensors --self 0 --cross 0 --out attention.svg",
	run: runAttention,
}

func runAttention(ctx context.Context, args []string) error {
	flags := newFlags("attention")
	choice := addWeightFlags(flags)
	file := flags.String("weights", "", "`FILE` of the weights, .pth or .safetensors")
	out := flags.String("out", "attention.png", "`FILE` of the figure: .png, .svg or .pdf")
	size := flags.Int("size", 224, "`PIXELS` of the height and width of the crop of an image; by default as the weights' makers have it")
	maps := features.AttentionMaps{}
	flags.IntVar(&maps.Heads, "self", 3, "`NUMBER` of self-attention maps, those of the first heads of [CLS]; 0 for all")
	flags.IntVar(&maps.Filter, "cross", 3, "`NUMBER` of cross-attention maps of the filter, those that vary most; 0 for all")
	paths, err := parse(flags, args)
	switch {
	case err != nil:
		return err
	case len(paths) == 0:
		return usagef("want at least one image")
	case *file == "":
		return noWeights()
	case maps.Heads < 0 || maps.Filter < 0:
		return usagef("--self %d, --cross %d: want numbers from 0", maps.Heads, maps.Filter)
	}
	if err := figures.CheckFormat(*out); err != nil {
		return usagef("--out %v", err)
	}
	if err := requireReadableFile("weights", *file); err != nil {
		return err
	}
	if err := requireWritableFile("out", *out); err != nil {
		return err
	}
	read, err := choice.read(*file)
	if err != nil {
		return err
	}
	preprocessing, ownSize, _, err := weights.ReadPreprocessing(*file)
	if err != nil {
		return err
	}
	if flags.Lookup("size").Value.String() == flags.Lookup("size").DefValue {
		*size = ownSize
	}
	if *size < read.ViT.PatchSize || *size%read.ViT.PatchSize != 0 {
		return usagef("--size %d is not a multiple of the transformer's patches of %d", *size, read.ViT.PatchSize)
	}
	var images []evaluation.Image
	for _, path := range paths {
		pixels, shape, err := preprocessing.ReadFile(path, *size, read.ViT.PatchSize)
		if err != nil {
			return err
		}
		im := evaluation.NewImage(pixels, shape, preprocessing)
		im.Name = path
		images = append(images, im)
	}
	engine, err := backend.Open()
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "engine: %s\n", backend.Engine())
	store := model.NewStore()
	defer store.Finalize()
	if err := read.Apply(store, "/"); err != nil {
		return err
	}
	frozen, err := evaluation.NewFeatureExtractor(engine, read.ViT, store, "/", 1)
	if err != nil {
		return err
	}
	defer frozen.Close()
	frozen.Preprocessing = preprocessing
	sheet, err := maps.Draw(frozen, images)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := figures.SaveAs(filepath.Clean(*out), sheet); err != nil {
		return err
	}
	fmt.Printf("wrote %s: %s of %s, from %s\n", *out, plural.Count(len(sheet.Images)-1, "map"), plural.Count(len(images), "image"), read.ViT.Name)
	return nil
}
