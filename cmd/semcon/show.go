package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/ownimages"
)

var showVerb = verb{
	name:    "show",
	summary: "draw what weights see in images: principal components, nearest patches, attention of [CLS]",
	args:    "IMAGE…",
	example: "semcon show dog.jpg park.jpg --weights runs/photos/encoder.safetensors --out pictures",
	run:     runShow,
}

func runShow(_ context.Context, args []string) error {
	flags := newFlags("show")
	file := flags.String("weights", "", "`FILE` of the weights, .pth or .safetensors")
	out := flags.String("out", "pictures", "`FOLDER` for the pictures, .svg and .png")
	size := flags.Int("size", 0, "`PIXELS` of the height and width that images are cropped to; by default 224 or the nearest that the patches fit")
	paths, err := parse(flags, args)
	switch {
	case err != nil:
		return err
	case len(paths) == 0:
		return usagef("want at least one image")
	case *file == "":
		return noWeights()
	case *size < 0 || *size > 2048:
		return usagef("--size %d is not between 1 and 2048", *size)
	}
	if err := requireReadableFile("weights", *file); err != nil {
		return err
	}
	if err := requireWritable("out", *out); err != nil {
		return err
	}
	engine, err := backend.Open()
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "engine: %s\n", backend.Engine())
	all, err := ownimages.Show(engine, *file, paths, *size)
	if err != nil {
		return err
	}
	for _, f := range all {
		if err := figures.SaveFigure(*out, f.Name, f.Figure); err != nil {
			return err
		}
		fmt.Printf("wrote %s\n", filepath.Join(*out, f.Name+".png"))
	}
	if last := paths[len(paths)-1]; len(paths) == 1 {
		fmt.Println("no nearest.png: it compares each image with the next, and there is one image")
	} else {
		fmt.Printf("nearest.png compares each image with the next, so it has no row for %s\n", last)
	}
	return nil
}
