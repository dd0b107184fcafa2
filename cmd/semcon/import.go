package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/janpfeifer/must"
	"github.com/semcon/semcon/sccore/weights"
	"github.com/spf13/cobra"
)

// imported is what "semcon import --format json" prints: what matches, by keys of the file.
type imported struct {
	File         string   `json:"file"`
	Architecture string   `json:"architecture"`
	Prefix       string   `json:"prefix"`
	Matched      []string `json:"matched"`
	Reshaped     []string `json:"reshaped"`
	Interpolated []string `json:"interpolated"`
	Missing      []string `json:"missing"`
	Unused       []string `json:"unused"`
	Ignored      []string `json:"ignored"`
	Written      string   `json:"written"` // The file; empty for none.
}

func importVerb() *cobra.Command {
	c := &cobra.Command{
		Use: "import WEIGHTS", Short: "read weights (.pth, .safetensors, sharded), report what matches, and write them with official, timm's or transformers' names",
		Example: "semcon import dino_deitsmall16_pretrain.pth --out weights/dino-s16.safetensors\nsemcon import facebook/dino-vits16\nsemcon import --list",
	}
	choice := addWeightFlags(c)
	out := c.Flags().String("out", "", "`FILE` to write, .safetensors; without it only the report is printed. FOLDER/model.safetensors gets a config.json beside it")
	naming := c.Flags().String("naming", string(weights.Timm), "`NAMES` to write: official, timm or transformers")
	complete(c, "naming", string(weights.Official), string(weights.Timm), string(weights.Transformers))
	keepHead := c.Flags().Bool("head", false, "also keep the projection head, under \"head.\"; timm then cannot load the file strictly")
	format := formatFlag(c)
	list := c.Flags().Bool("list", false, "name the published checkpoints of the paper's tables and their successors, where they are, and what was tried of them")
	c.RunE = func(c *cobra.Command, names []string) error {
		wanted := weights.Naming(*naming)
		switch {
		case *list && len(names) == 0:
			return printPublished(*format)
		case *list || len(names) != 1:
			return usagef("want one file of weights, or --list alone; got %s", listed(names))
		case *out != "" && filepath.Ext(*out) != ".safetensors":
			return usagef("--out %s does not end with .safetensors", *out)
		case wanted.Check() != nil:
			return usagef("--%v", wanted.Check())
		case wanted == weights.Transformers && *out != "" && filepath.Base(*out) != weights.ModelFile:
			return usagef("--out %s: transformers only finds weights that are called %s, with a config.json beside them", *out, weights.ModelFile)
		case *keepHead && wanted != weights.Timm:
			return usagef("--head: only timm's names leave room for a projection head")
		}
		if *out != "" {
			must.M(requireWritableFile("out", *out))
		}
		names[0] = must.M1(locate(c, names[0]))
		v := vitFile{Import: must.M1(choice.read(names[0]))}
		read, w := *v.Import, textOf(*format)
		fmt.Fprint(w, v.Import)
		if *out != "" {
			if !*keepHead {
				v.Head = nil
			}
			must.M(v.export(names[0], *out, wanted))
			fmt.Fprintf(w, "wrote %s\n", *out)
		}
		return printAs(*format, "", imported{
			read.File, read.ViT.Name, read.Prefix, read.Matched, read.Reshaped, read.Interpolated, read.Missing, read.Unused, read.Ignored, *out,
		})
	}
	return c
}

// export writes imported weights with what belongs beside them.
func (v vitFile) export(source, out string, naming weights.Naming) error {
	if err := naming.Fits(v.ViT); err != nil {
		return fmt.Errorf("%s: %w", source, err)
	}
	store, err := v.Store()
	if err != nil {
		return err
	}
	v.Release()
	metadata := map[string]string{
		"source": filepath.Base(source), "format": "pt", "architecture": v.ViT.Name, "positions": string(v.ViT.Positions), // Beside a config.json they count.
	}
	if len(v.Ignored) > 0 {
		metadata["ignored"] = strings.Join(v.Ignored, " ")
	}
	if err := weights.Export(out, naming, store, "/", v.ViT, v.Head, metadata); err != nil {
		return err
	}
	preprocessing, size, _, err := weights.ReadPreprocessing(source)
	if err != nil {
		return err
	}
	if filepath.Base(out) == weights.ModelFile {
		if err := weights.WriteConfig(out, naming, v.ViT, preprocessing, size); err != nil {
			return err
		}
	}
	digest, err := digestOf(source)
	if err != nil {
		return err
	}
	return weights.Card{ViT: v.ViT, Naming: naming, Preprocessing: preprocessing, Size: size, Head: v.Head != nil, Facts: []weights.Fact{
		{Name: "Imported from", Text: filepath.Base(source) + ", " + digest}, {Name: "Its keys", Text: v.String()},
	}}.Write(out)
}
