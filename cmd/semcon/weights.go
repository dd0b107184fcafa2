package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dsnet/try"
	"github.com/gomlx/compute"
	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/experiments/pretrain"
	"github.com/semcon/semcon/sccore/progress"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/weights"
	"github.com/semcon/semcon/sccore/weights/hub"
	"github.com/spf13/cobra"
)

// weightChoice holds the flags for a file of weights.
type weightChoice struct {
	Arch, Branch, Positions string
	Heads                   int
	Epsilon                 float64
	Ignore                  []string
}

// weightFlags adds the flags for a file of weights, and those of other structs.
func weightFlags(c *cobra.Command, flags flagTexts, others ...any) *weightChoice {
	choice := &weightChoice{}
	flags.bind(c, append(others, choice)...)
	complete(c, "arch", encoder.ViTNames()...)
	complete(c, "branch", "teacher", "student")
	return choice
}

// read checks the flags and reads the file.
func (c *weightChoice) read(path string) *weights.Import {
	want := encoder.ViT{NumHeads: c.Heads, Epsilon: c.Epsilon}
	refuse(c.Arch != "" && (c.Heads != 0 || c.Epsilon != 0), "--arch already says the heads and the epsilon")
	if c.Arch != "" {
		v, err := encoder.ViTByName(c.Arch)
		refuse(err != nil, "--arch: %v", err)
		want = v
	}
	want.Positions = encoder.Positions(c.Positions) // By default the file's, also beside --arch.
	read, err := weights.ReadViT(path, want, c.Branch, c.Ignore...)
	if decide := (weights.Undecided{}); errors.As(err, &decide) {
		err = fmt.Errorf("%w; %s", err, map[string]string{
			"branch": "--branch takes one of these names or a part of it", "ignore": "--ignore " + decide.Key + " leaves it out", "heads": "or give --heads or --arch",
		}[decide.Argument])
	}
	fail(c.Heads > 0 && err != nil && strings.Contains(err.Error(), "NumHeads"), "--heads %d: %w", c.Heads, err)
	return try.E1(read, err)
}

// vitFile is a transformer from a file of weights, and how its makers preprocess images.
type vitFile struct {
	*weights.Import
	preprocessing datasets.Preprocessing
	size          int // Height and width in pixels of the crop.
}

// open reads the file.
func (c *weightChoice) open(path string) (f vitFile) {
	f.Import = c.read(path)
	f.preprocessing, f.size, _ = try.E3(weights.ReadPreprocessing(path))
	return f
}

// readImage reads an image as the makers of the weights preprocess it.
func (f vitFile) readImage(path string) (image evaluation.Image, err error) {
	defer try.Handle(&err)
	pixels, size := try.E2(f.preprocessing.ReadFile(path, f.size, f.ViT.PatchSize))
	image = evaluation.NewImage(pixels, size, f.preprocessing)
	image.Name = path
	return image, nil
}

// encoder puts the transformer on an engine, for batches of images. The caller closes it.
func (f vitFile) encoder(engine compute.Backend, batch int) *evaluation.Encoder {
	e := try.E1(evaluation.OpenEncoder(engine, f.Import, batch, 0))
	e.Preprocessing = f.preprocessing
	return e
}

// preprocessingFlags adds the flags of how images are preprocessed. The function that it returns changes what the makers of the weights do where flags say so.
func preprocessingFlags(c *cobra.Command, texts flagTexts) func(*vitFile) {
	var f struct {
		Size, Resize            int
		Crop                    float64
		CropMode, Interpolation string
		Mean, Std               []float64
	}
	texts.bind(c, &f)
	flags := c.Flags()
	return func(v *vitFile) {
		p := &v.preprocessing
		if flags.Changed("size") {
			if p.Resize > 0 { // The makers' length belongs to their size, and its share to any.
				p.CropPct, p.Resize = float64(v.size)/float64(p.Resize), 0
			}
			v.size = f.Size
		}
		if flags.Changed("crop") {
			p.CropPct, p.Resize = f.Crop, 0
		}
		if flags.Changed("crop-mode") {
			p.CropMode = datasets.CropMode(f.CropMode)
		}
		if flags.Changed("interpolation") {
			p.Interpolation = datasets.Interpolation(f.Interpolation)
		}
		for _, colour := range []struct {
			name  string
			given []float64
			to    *[3]float64
		}{{"mean", f.Mean, &p.Mean}, {"std", f.Std, &p.Std}} {
			refuse(flags.Changed(colour.name) && (len(colour.given) != 3 || copy(colour.to[:], colour.given) != 3),
				"--%s: want three numbers with commas between them", colour.name)
		}
		if f.Resize != 0 {
			p.Resize = f.Resize
		}
		wrong := settings.Check(p)
		refuse(wrong != nil, "--%s", strings.NewReplacer("crop_pct", "crop", "_", "-").Replace(fmt.Sprint(wrong)))
	}
}

// openEngine opens the engine and says which it is.
func openEngine() compute.Backend {
	engine := try.E1(backend.Open())
	fmt.Fprintf(os.Stderr, "engine: %s\n", backend.Engine())
	return engine
}

// requireWeights ends the verb if its flag of a file of weights is empty. The error names one that a run of the experiment pretrain has left, if there is one.
func requireWeights(file string) {
	if file == "" {
		left, name := pretrain.Trained(usualOut())
		refuse(left != "", "--weights FILE is missing; %s has left %s", name, left)
		refuse(true, "--weights FILE is missing; \"semcon run pretrain\" leaves one, and \"semcon show\" a small one, pictures/encoder.safetensors")
	}
}

// setupCommand repairs the set-up of a checkout.
const setupCommand = "go run ./cmd/semcon lab --setup-only"

// openDevices opens the engine on a number of devices for a training that writes checkpoints every so often.
func openDevices(n int, checkpointEvery time.Duration) compute.Backend {
	refuse(checkpointEvery < 0, "--checkpoint-every %v is negative", checkpointEvery)
	return try.E1(backend.OpenDevices(n))
}

// announceEngine prints the engine of a run, its devices if there are several, and a warning where there is a faster engine.
func announceEngine(w io.Writer, devices int) {
	shared := lo.Ternary(devices > 1, fmt.Sprintf(", %d devices", devices), "")
	fmt.Fprintf(w, "engine: %s%s\n", backend.Engine(), shared)
	if backend.IsGo() {
		fmt.Fprintf(w, "warning: training on the pure-Go engine takes about 25 times as long as on XLA; to get XLA: %s\n", xlaRemedy())
	} else if unused := backend.UnusedGPU(); unused != "" {
		fmt.Fprintf(w, "warning: %s; to use the GPU: %s\n", unused, xlaRemedy())
	}
}

// xlaRemedy returns the command or the step that replaces the pure-Go engine with XLA.
func xlaRemedy() string {
	switch {
	case os.Getenv(compute.ConfigEnvVar) != "":
		return "unset " + compute.ConfigEnvVar
	case !backend.CanLoadXLA():
		return "install a C compiler and build semcon again without CGO_ENABLED=0"
	}
	root := backend.CheckoutRoot()
	if here, err := os.Getwd(); root != "" && err == nil && here == filepath.Clean(root) {
		return setupCommand
	}
	return "semcon lab --setup-only --global"
}

// newBar opens a bar on standard error.
func newBar(title string, total int) progress.Bar { return progress.New(os.Stderr, title, total) }

// say prints a line, on a terminal in the place of an open bar, which is drawn again below it.
func say(line string) {
	fmt.Fprintln(os.Stderr, lo.Ternary(progress.IsTerminal(os.Stderr), "\r\x1b[K", "")+line)
}

// downloads draws bars of files that come from the Hub.
var downloads = hub.Watch{Bar: newBar, Say: say}

// locateFlag puts the path of the weights that a flag names in the place of the name. It ends the verb with an error, also if the file is not there or cannot be seen.
func locateFlag(c *cobra.Command, flag string, name *string) {
	path, err := hub.Locate(c.Context(), *name, downloads)
	fail(err != nil, "--%s %w", flag, err)
	_, err = os.Stat(path)
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		fail(true, "--%s %s: %w", flag, path, failed.Err)
	}
	*name = path
}

// locateSettings puts paths in the place of names of weights in settings. Verbs that only read records take what the cache has.
func locateSettings(c *cobra.Command, set *[]string) {
	watch := downloads
	watch.Cached = !slices.Contains([]string{"run", "submit"}, c.Name())
	located, err := hub.Settings(c.Context(), *set, watch)
	refuse(err != nil && c.Context().Err() == nil, "%v", err) // The setting names what cannot be had.
	*set = try.E1(located, err)
}

// printPublished prints where published weights are, and what was tried of them.
func printPublished(format string) {
	text := ""
	for _, p := range hub.Published() {
		text += fmt.Sprintf("%s, %s\n  %s\n  read: %s\n", p.Model, p.Encoder, p.Where, p.Evidence())
	}
	text += "\nNames OWNER/NAME and hf://… are taken wherever weights are. Download the other addresses by hand, and give the file.\n"
	printAs(format, text, hub.Published())
}

func importVerb(c *cobra.Command, flags flagTexts) {
	var f struct {
		Out, Naming, Format string
		Head, List          bool
	}
	choice := weightFlags(c, flags, &f)
	c.Run = func(c *cobra.Command, names []string) {
		if f.List && len(names) == 0 {
			printPublished(f.Format)
			return
		}
		wanted := weights.Naming(f.Naming)
		refuse(f.List || len(names) != 1, "want one file of weights, or --list alone; got %s", listed(names))
		refuse(f.Out != "" && filepath.Ext(f.Out) != ".safetensors", "--out %s does not end with .safetensors", f.Out)
		refuse(wanted == weights.Transformers && f.Out != "" && filepath.Base(f.Out) != weights.ModelFile,
			"--out %s: transformers only finds weights that are called %s, with a config.json beside them", f.Out, weights.ModelFile)
		refuse(f.Head && wanted != weights.Timm, "--head: only timm's names leave room for a projection head")
		if f.Out != "" {
			requireWritableFile("out", f.Out) // Before anything is downloaded.
		}
		names[0] = try.E1(hub.Locate(c.Context(), names[0], downloads))
		requireInputsKept("out", f.Out, names...)
		v := vitFile{Import: choice.read(names[0])}
		read, w := *v.Import, textOf(f.Format)
		fmt.Fprint(w, v.Import)
		if f.Out != "" {
			if !f.Head {
				v.Head = nil
			}
			v.export(names[0], f.Out, wanted)
			fmt.Fprintf(w, "wrote %s\n", f.Out)
		}
		printAs(f.Format, "", map[string]any{ // Lists are of keys of the file.
			"file": read.File, "architecture": read.ViT.Name, "prefix": read.Prefix, "matched": read.Matched, "reshaped": read.Reshaped, "interpolated": read.Interpolated,
			"missing": read.Missing, "unused": read.Unused, "ignored": read.Ignored, "written": f.Out,
		})
	}
}

// export writes imported weights with what belongs beside them.
func (v vitFile) export(source, out string, naming weights.Naming) {
	err := naming.Fits(v.ViT)
	fail(err != nil, "%s: %w", source, err)
	store := try.E1(v.Store())
	v.Release()
	preprocessing, size, _ := try.E3(weights.ReadPreprocessing(source)) // Before anything is written.
	metadata := map[string]string{
		"source": filepath.Base(source), "format": "pt", "architecture": v.ViT.Name, "positions": string(v.ViT.Positions), // Beside a config.json they count.
	}
	if len(v.Ignored) > 0 {
		metadata["ignored"] = strings.Join(v.Ignored, " ")
	}
	try.E(weights.Export(out, naming, store, "/", v.ViT, v.Head, metadata))
	if filepath.Base(out) == weights.ModelFile {
		try.E(weights.WriteConfig(out, naming, v.ViT, preprocessing, size))
	}
	try.E(weights.Card{ViT: v.ViT, Naming: naming, Preprocessing: preprocessing, Size: size, Head: v.Head != nil, Facts: []weights.Fact{
		{Name: "Imported from", Text: filepath.Base(source) + ", sha256 " + try.E1(weights.SHA256(source))}, {Name: "Its keys", Text: v.String()},
	}}.Write(out))
}
