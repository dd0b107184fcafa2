package main

import (
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/experiments/pretrain"
	"github.com/semcon/semcon/sccore/weights"
)

// featureChoice is what the flags of the verb ask for.
type featureChoice struct {
	weights, out  string
	class         bool
	outputs       evaluation.Outputs
	preprocessing datasets.Preprocessing
	size, batch   int
}

// names are the names of the tensors, in the order of [valuesOf].
func (c featureChoice) names() (names []string) {
	blocks := []string{""}
	if len(c.outputs.Blocks) > 0 {
		blocks = nil
		for _, block := range c.outputs.Blocks {
			blocks = append(blocks, fmt.Sprintf("layer%d.", block))
		}
	}
	for _, block := range blocks {
		if c.class {
			names = append(names, block+"class")
		}
		if c.outputs.Patches {
			names = append(names, block+"patches")
		}
	}
	return names
}

// parseFeatures reads the command line. The preprocessing is that of the weights' makers where the flags do not say otherwise.
func parseFeatures(args []string) (c featureChoice, images string, choice weightChoice, err error) {
	flags := newFlags("features")
	choice = addWeightFlags(flags)
	flags.StringVar(&c.weights, "weights", "", "`FILE` of the weights, .pth or .safetensors")
	flags.StringVar(&c.out, "out", "features.npy", "`FILE` to write: .safetensors, or .npy for one tensor, with the names of the images in .txt beside it")
	flags.BoolVar(&c.class, "class", true, "write the features of [CLS]; --class=false leaves them out")
	flags.BoolVar(&c.outputs.Patches, "patches", false, "write the features of patches")
	layers := flags.String("layer", "", "`BLOCKS` after which features are taken, from 1, with commas between them; by default the last one")
	flags.IntVar(&c.outputs.Resolution, "resolution", 0, "`NUMBER` of rows or columns, whichever are fewer, that maps of patches are resized to; by default those of the patches")
	size := flags.Int("size", 224, "`PIXELS` of the height and width of crops, or of the shorter side of whole images; by default as the weights' makers have it")
	resize := flags.Int("resize", 0, "`PIXELS` that the shorter side is resized to; by default the size over the share of --crop")
	crop := flags.Float64("crop", 0.875, "`SHARE` of the resized image's shorter side that the crop takes; by default as the weights' makers have it")
	mode := flags.String("crop-mode", string(datasets.CentreCrop), "`MODE`: center, squash, which changes the aspect, or whole, which keeps it and pads to whole patches")
	interpolation := flags.String("interpolation", string(datasets.Bicubic), "`KERNEL` that images are resized with: bicubic or bilinear")
	mean := flags.String("mean", "", "`COLOUR` to subtract, as three numbers with commas between them; by default ImageNet's mean")
	std := flags.String("std", "", "`COLOUR` to divide by after that; by default ImageNet's standard deviation")
	flags.IntVar(&c.batch, "batch", 16, "`NUMBER` of images per batch")
	names, err := parse(flags, args)
	extension := filepath.Ext(c.out)
	switch {
	case err != nil:
		return c, "", choice, err
	case len(names) != 1:
		return c, "", choice, usagef("want one folder of images, one list of them, - for a list on standard input, or one .safetensors of standardised images, got %s", listed(names))
	case c.weights == "":
		return c, "", choice, noWeights()
	case extension != ".npy" && extension != ".safetensors":
		return c, "", choice, usagef("--out %s ends with neither .npy nor .safetensors", c.out)
	case *size < 1 || *size > 8192:
		return c, "", choice, usagef("--size %d is not between 1 and 8192", *size)
	case c.batch < 1:
		return c, "", choice, usagef("--batch %d is below 1", c.batch)
	case c.outputs.Resolution < 0 || c.outputs.Resolution > 0 && !c.outputs.Patches:
		return c, "", choice, usagef("--resolution %d: want a number above 0, with --patches", c.outputs.Resolution)
	}
	if c.outputs.Blocks, err = parseBlocks(*layers); err != nil {
		return c, "", choice, err
	}
	switch tensors := c.names(); {
	case len(tensors) == 0:
		return c, "", choice, usagef("--class=false without --patches leaves nothing to compute")
	case extension == ".npy" && len(tensors) > 1:
		return c, "", choice, usagef("--out %s: a .npy holds one tensor, not %s; want a .safetensors", c.out, strings.Join(tensors, " and "))
	}
	if c.preprocessing, c.size, _, err = weights.ReadPreprocessing(c.weights); err != nil {
		return c, "", choice, err
	}
	flags.Visit(func(f *flag.Flag) {
		var wrong error
		switch f.Name {
		case "size":
			if c.preprocessing.Resize > 0 { // The makers' length belongs to their size, and its share to any.
				c.preprocessing.CropPct, c.preprocessing.Resize = float64(c.size)/float64(c.preprocessing.Resize), 0
			}
			c.size = *size
		case "crop":
			c.preprocessing.CropPct, c.preprocessing.Resize = *crop, 0
		case "crop-mode":
			c.preprocessing.CropMode = datasets.CropMode(*mode)
		case "interpolation":
			c.preprocessing.Interpolation = datasets.Interpolation(*interpolation)
		case "mean":
			c.preprocessing.Mean, wrong = parseColour("--mean", *mean)
		case "std":
			c.preprocessing.Std, wrong = parseColour("--std", *std)
		}
		if wrong != nil {
			err = wrong
		}
	})
	if *resize != 0 {
		c.preprocessing.Resize = *resize
	}
	if err == nil {
		if wrong := c.preprocessing.Check(); wrong != nil {
			err = usagef("--%s", strings.NewReplacer("crop_pct", "crop", "_", "-").Replace(wrong.Error()))
		}
	}
	if whole := c.preprocessing.CropMode == datasets.WholeImage; err == nil && whole && c.outputs.Patches && extension == ".npy" {
		err = usagef("--out %s: maps of whole images have several sizes; want a .safetensors", c.out)
	}
	return c, names[0], choice, err
}

func parseBlocks(text string) (blocks []int, err error) {
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		block, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil {
			return nil, usagef("--layer %s: %q is not the number of a block", text, part)
		}
		if slices.Contains(blocks, block) {
			return nil, usagef("--layer %s: block %d is there twice", text, block)
		}
		blocks = append(blocks, block)
	}
	return blocks, nil
}

func parseColour(flag, text string) (colour [3]float64, err error) {
	parts := strings.Split(text, ",")
	if len(parts) != 3 {
		return colour, usagef("%s %s: want three numbers with commas between them", flag, text)
	}
	for i, part := range parts {
		if colour[i], err = strconv.ParseFloat(strings.TrimSpace(part), 64); err != nil {
			return colour, usagef("%s %s: %q is not a number", flag, text, part)
		}
	}
	return colour, nil
}

// noWeights is the error of a missing file of weights. It names one that a run of the experiment pretrain has left, if there is one.
func noWeights() error {
	if file, name := pretrain.Trained("out"); file != "" {
		return usagef("--weights FILE is missing; %s has left %s", name, file)
	}
	return usagef("--weights FILE is missing; \"semcon run pretrain\" leaves one")
}
