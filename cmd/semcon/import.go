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
	summary: "read weights (.pth, .safetensors, sharded), report what matches, and write them with official, timm's or transformers' names",
	args:    "FILE",
	example: "semcon import dino_deitsmall16_pretrain.pth --out weights/dino-s16.safetensors",
	run: func(ctx context.Context, args []string) error {
		flags := newFlags("import")
		choice := addWeightFlags(flags)
		out := flags.String("out", "", "`FILE` to write, .safetensors; without it only the report is printed. FOLDER/model.safetensors gets a config.json beside it")
		naming := flags.String("naming", string(weights.Timm), "`NAMES` to write: official, timm or transformers")
		keepHead := flags.Bool("head", false, "also keep the projection head, under \"head.\"; timm then cannot load the file strictly")
		names, err := parse(flags, args)
		switch {
		case err != nil:
			return err
		case len(names) != 1:
			return usagef("want one file of weights, got %s", listed(names))
		case *out != "" && filepath.Ext(*out) != ".safetensors":
			return usagef("--out %s does not end with .safetensors", *out)
		case weights.Naming(*naming).Check() != nil:
			return usagef("--%v", weights.Naming(*naming).Check())
		case *naming == string(weights.Transformers) && *out != "" && filepath.Base(*out) != weights.ModelFile:
			return usagef("--out %s: transformers only finds weights that are called %s, with a config.json beside them", *out, weights.ModelFile)
		case *keepHead && *naming != string(weights.Timm):
			return usagef("--head: only timm's names leave room for a projection head")
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
		var head map[string]*tensors.Tensor
		if *keepHead {
			head = im.Head
		}
		return export(names[0], *out, weights.Naming(*naming), im, head)
	},
}

// export writes imported weights with what belongs beside them.
func export(source, out string, naming weights.Naming, im *weights.Import, head map[string]*tensors.Tensor) error {
	if err := naming.Fits(im.ViT); err != nil {
		return fmt.Errorf("%s: %w", source, err)
	}
	store := model.NewStore()
	if err := im.Apply(store, "/"); err != nil {
		return err
	}
	metadata := map[string]string{
		"source": filepath.Base(source), "format": "pt", "architecture": im.ViT.Name, "positions": string(im.ViT.Positions), // Beside a config.json they count.
	}
	if len(im.Ignored) > 0 {
		metadata["ignored"] = strings.Join(im.Ignored, " ")
	}
	if err := weights.ExportAs(out, naming, store, "/", im.ViT, head, metadata); err != nil {
		return err
	}
	preprocessing, size, _, err := weights.ReadPreprocessing(source)
	if err != nil {
		return err
	}
	if filepath.Base(out) == weights.ModelFile {
		if err := weights.WriteConfig(out, naming, im.ViT, preprocessing, size); err != nil {
			return err
		}
	}
	digest, err := digestOf(source)
	if err != nil {
		return err
	}
	card := weights.Card{ViT: im.ViT, Naming: naming, Preprocessing: preprocessing, Size: size, Head: head != nil, Facts: []weights.Fact{
		{Name: "Imported from", Text: filepath.Base(source) + ", " + digest}, {Name: "Its keys", Text: im.String()},
	}}
	if err := card.Write(out); err != nil {
		return err
	}
	fmt.Printf("wrote %s\n", out)
	return nil
}

// weightChoice holds the flags for a file of weights.
type weightChoice struct {
	arch, branch, positions *string
	heads                   *int
	epsilon                 *float64
	ignore                  *patterns
}

// patterns are the values of a flag that can be given several times.
type patterns []string

func (p *patterns) String() string { return strings.Join(*p, " ") }

func (p *patterns) Set(value string) error {
	*p = append(*p, value)
	return nil
}

func addWeightFlags(flags *flag.FlagSet) weightChoice {
	choice := weightChoice{
		arch:      flags.String("arch", "", "`NAME` of the transformer that the file must hold: "+strings.Join(encoder.ViTNames(), ", ")+" or a name such as vit-s14-grid37-reg4-ls; by default the one that fits"),
		branch:    flags.String("branch", "", "`NAME` of the branch, if the file has several: teacher or student; by default the teacher"),
		positions: flags.String("positions", "", "`METHOD` of resizing position embeddings: dino, timm or transformers; by default that of the file's makers"),
		heads:     flags.Int("heads", 0, "`NUMBER` of attention heads, where neither the file nor a config.json beside it says it"),
		epsilon:   flags.Float64("epsilon", 0, "`NUMBER` that normalisation adds to the variance; by default that of config.json or of the file's makers"),
		ignore:    new(patterns),
	}
	flags.Var(choice.ignore, "ignore", "leave out the keys that match `PATTERN`, with * for any text; can be given several times")
	return choice
}

// read checks the flags and reads the file.
func (c weightChoice) read(path string) (*weights.Import, error) {
	var want encoder.ViT
	if *c.arch != "" {
		var err error
		if want, err = encoder.ViTByName(*c.arch); err != nil {
			return nil, usagef("--arch: %v", err)
		}
		if *c.heads != 0 || *c.epsilon != 0 {
			return nil, usagef("--arch already says the heads and the epsilon")
		}
	}
	if *c.positions != "" {
		want.Positions = encoder.Positions(*c.positions)
		if err := want.Positions.Check(); err != nil {
			return nil, usagef("--%v", err)
		}
	}
	switch {
	case *c.branch != "" && *c.branch != "teacher" && *c.branch != "student":
		return nil, usagef("--branch %s: want teacher or student", *c.branch)
	case *c.heads < 0 || *c.heads > 1<<12:
		return nil, usagef("--heads %d is out of range", *c.heads)
	case !(*c.epsilon >= 0 && *c.epsilon < 1):
		return nil, usagef("--epsilon %g is not between 0 and 1", *c.epsilon)
	}
	if want.Dim == 0 {
		want.NumHeads, want.Epsilon = *c.heads, *c.epsilon
	}
	return weights.ReadViT(path, want, *c.branch, *c.ignore...)
}
