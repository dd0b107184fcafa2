package main

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/weights"
)

var importVerb = verb{
	name:    "import",
	summary: "read official weights (.pth, .safetensors), report what matches, and write them with timm's names",
	args:    "FILE",
	example: "semcon import dino_deitsmall16_pretrain.pth --out weights/dino-s16.safetensors",
	run: func(ctx context.Context, args []string) error {
		flags := newFlags("import")
		choice := addWeightFlags(flags)
		out := flags.String("out", "", "`FILE` to write, .safetensors; without it only the report is printed")
		keepHead := flags.Bool("head", false, "also keep the projection head, under \"head.\"; timm then cannot load the file strictly")
		names, err := parse(flags, args)
		switch {
		case err != nil:
			return err
		case len(names) != 1:
			return usagef("want one file of weights, got %s", listed(names))
		case *out != "" && filepath.Ext(*out) != ".safetensors":
			return usagef("--out %s does not end with .safetensors", *out)
		}
		if *out != "" {
			if err := requireWritableFile("out", *out); err != nil {
				return err
			}
		}
		im, err := choice.read(names[0])
		if err != nil {
			return err
		}
		fmt.Print(im)
		if *out == "" {
			return nil
		}
		store := model.NewStore()
		if err := im.Apply(store, "/"); err != nil {
			return err
		}
		var head map[string]*tensors.Tensor
		if *keepHead {
			head = im.Head
		}
		metadata := map[string]string{"architecture": im.ViT.Name, "source": filepath.Base(names[0])}
		if err := weights.ExportViT(*out, store, "/", im.ViT, head, metadata); err != nil {
			return err
		}
		if err := importCard(names[0], *out, im, head != nil); err != nil {
			return err
		}
		fmt.Printf("wrote %s\n", *out)
		return nil
	},
}

// importCard writes the model card of imported weights.
func importCard(source, out string, im *weights.Import, head bool) error {
	preprocessing, size, _, err := weights.ReadPreprocessing(source)
	if err != nil {
		return err
	}
	digest, err := digestOf(source)
	if err != nil {
		return err
	}
	return weights.Card{ViT: im.ViT, Preprocessing: preprocessing, Size: size, Head: head, Facts: []weights.Fact{
		{Name: "Imported from", Text: filepath.Base(source) + ", " + digest}, {Name: "Its keys", Text: im.String()},
	}}.Write(out)
}

// weightChoice holds the flags for a file of weights.
type weightChoice struct{ arch, branch, positions *string }

func addWeightFlags(flags *flag.FlagSet) weightChoice {
	return weightChoice{
		arch:      flags.String("arch", "", "`NAME` of the transformer that the file must hold: "+strings.Join(encoder.ViTNames(), ", ")+"; by default the one that fits"),
		branch:    flags.String("branch", "", "`NAME` of the branch, if the file has several: teacher or student; by default the teacher"),
		positions: flags.String("positions", string(encoder.DINOPositions), "`METHOD` of resizing position embeddings: dino or timm"),
	}
}

// read checks the flags and reads the file.
func (c weightChoice) read(path string) (*weights.Import, error) {
	var want encoder.ViT
	if *c.arch != "" {
		var err error
		if want, err = encoder.ViTByName(*c.arch); err != nil {
			return nil, usagef("--arch: %v", err)
		}
	}
	want.Positions = encoder.Positions(*c.positions)
	if err := want.Positions.Check(); err != nil {
		return nil, usagef("--%v", err)
	}
	if *c.branch != "" && *c.branch != "teacher" && *c.branch != "student" {
		return nil, usagef("--branch %s: want teacher or student", *c.branch)
	}
	return weights.ReadViT(path, want, *c.branch)
}
