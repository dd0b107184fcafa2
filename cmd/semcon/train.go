package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/ownimages"
	"github.com/semcon/semcon/sccore/progress"
)

var trainVerb = verb{
	name:    "train",
	summary: "train on a folder of your own images, from weights of yours or of others",
	args:    "FOLDER",
	example: "semcon train photos --init dino_deitsmall16_pretrain.pth --out runs/photos\n" +
		"semcon train streets --objects products --init model.safetensors --out runs/both\n" +
		"semcon train photos --profile smoke --out runs/try",
	kept: "checkpoint kept",
	run:  runTrain,
}

func runTrain(ctx context.Context, args []string) error {
	flags := newFlags("train")
	o := ownimages.Options{}
	flags.StringVar(&o.Start.Init, "init", "", "`FILE` of weights to start from, .pth or .safetensors; without it from random weights of vit-tiny")
	flags.StringVar(&o.Folders.Objects, "objects", "", "`FOLDER` of images that show one object each; those of the first folder then count as scenes")
	flags.StringVar(&o.Out, "out", "", "`FOLDER` for the encoder, its curves and report.html; by default out/train/ and the name of the images' folder")
	profile := flags.String("profile", "full", "`PROFILE`: full, or smoke, which shows in a minute that it works")
	seed := flags.Uint64("seed", 0, "`NUMBER` that seeds all random draws")
	ignore := new(patterns)
	flags.Var(ignore, "ignore", "leave out the keys of --init that match `PATTERN`, with * for any text; can be given several times")
	flags.StringVar(&o.Folders.Cache, "cache", "", "`FOLDER` that keeps training images decoded and shrunk, for later epochs and runs; 3 bytes a pixel")
	flags.DurationVar(&o.CheckpointEvery, "checkpoint-every", 20*time.Second, "`TIME` between checkpoints: the most that a kill loses")
	flags.Func("set", "change a setting: `KEY=VALUE`, such as rate=1e-5, steps=2000, batch=64 or encoder=vit-s16; may be repeated", appendTo(&o.Start.Set))
	devices := devicesFlag(flags)
	names, err := parse(flags, args)
	switch {
	case err != nil:
		return err
	case len(names) != 1:
		return usagef("want one folder of images, got %s", listed(names))
	case *profile != "full" && *profile != "smoke":
		return usagef("--profile %q: want full or smoke", *profile)
	case o.CheckpointEvery < 0:
		return usagef("--checkpoint-every %v is negative", o.CheckpointEvery)
	}
	if err := checkDevices(*devices); err != nil {
		return err
	}
	o.Folders.Images, o.Start.Smoke, o.Start.Ignore, o.Seed = names[0], *profile == "smoke", *ignore, *seed
	if o.Out == "" {
		absolute, err := filepath.Abs(names[0])
		if err != nil {
			return err
		}
		o.Out = filepath.Join("out", "train", filepath.Base(absolute))
	}
	if o.Start.Init != "" {
		if err := requireReadableFile("init", o.Start.Init); err != nil {
			return err
		}
	}
	if err := requireWritable("out", o.Out); err != nil {
		return err
	}
	engine, err := backend.OpenDevices(*devices)
	if err != nil {
		return err
	}
	o.Command = commandLine(append([]string{"semcon", "train"}, args...))
	announceEngine(os.Stderr, *devices)
	o.Say = func(line string) { fmt.Fprintln(os.Stderr, line) }
	o.Bar = func(title string, total int) progress.Bar { return progress.New(os.Stderr, title, total) }
	did := "wrote"
	if ownimages.Finished(o.Out) {
		did = "already finished:"
	}
	if err := ownimages.Train(ctx, engine, o); err != nil {
		return err
	}
	fmt.Printf("%s %s and %s\n", did, filepath.Join(o.Out, ownimages.EncoderFile), filepath.Join(o.Out, ownimages.ReportFile))
	return nil
}

// commandLine joins words as a shell reads them.
func commandLine(words []string) string {
	var quoted []string
	for _, word := range words {
		if word == "" || strings.ContainsAny(word, " \t\n\"'`$&|;<>()*?[]{}~#!\\") {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		quoted = append(quoted, word)
	}
	return strings.Join(quoted, " ")
}
