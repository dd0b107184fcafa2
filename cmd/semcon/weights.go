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
	"github.com/semcon/semcon/sccore/weights"
	"github.com/semcon/semcon/sccore/weights/hub"
	"github.com/spf13/cobra"
)

// weightChoice holds the flags for a file of weights.
type weightChoice struct {
	arch, branch, positions string
	heads                   int
	epsilon                 float64
	ignore                  []string
}

func addWeightFlags(cmd *cobra.Command) *weightChoice {
	c, flags := &weightChoice{}, cmd.Flags()
	flags.StringVar(&c.arch, "arch", "", "`NAME` of the transformer that the file must hold: "+strings.Join(encoder.ViTNames(), ", ")+" or a name such as vit-s14-grid37-reg4-ls; by default the one that fits")
	flags.StringVar(&c.branch, "branch", "", "`NAME` of the branch, if the file has several: teacher, student, or a part of its keys; by default the one that the file's makers evaluate")
	flags.StringVar(&c.positions, "positions", "", "`METHOD` of resizing position embeddings: dino, timm or transformers; by default what the file's makers use")
	flags.IntVar(&c.heads, "heads", 0, "`NUMBER` of attention heads, where neither the file nor a config.json beside it says it")
	flags.Float64Var(&c.epsilon, "epsilon", 0, "`NUMBER` that normalisation adds to the variance; by default from config.json or the file's makers")
	flags.StringArrayVar(&c.ignore, "ignore", nil, "leave out the keys that match `PATTERN`, with * for any text; can be given several times")
	complete(cmd, "arch", encoder.ViTNames()...)
	complete(cmd, "branch", "teacher", "student")
	complete(cmd, "positions", "dino", "timm", "transformers")
	return c
}

// read checks the flags and reads the file. It ends the verb with an error.
func (c *weightChoice) read(path string) *weights.Import {
	want := encoder.ViT{NumHeads: c.heads, Epsilon: c.epsilon}
	refuse(c.arch != "" && (c.heads != 0 || c.epsilon != 0), "--arch already says the heads and the epsilon")
	refuse(c.heads < 0 || c.heads > 1<<12, "--heads %d is out of range", c.heads)
	refuse(!(c.epsilon >= 0 && c.epsilon < 1), "--epsilon %g is not between 0 and 1", c.epsilon)
	if c.arch != "" {
		v, err := encoder.ViTByName(c.arch)
		refuse(err != nil, "--arch: %v", err)
		want = v
	}
	if c.positions != "" {
		want.Positions = encoder.Positions(c.positions)
		err := want.Positions.Check()
		refuse(err != nil, "--%v", err)
	}
	read, err := weights.ReadViT(path, want, c.branch, c.ignore...)
	if decide := (weights.Undecided{}); errors.As(err, &decide) {
		err = fmt.Errorf("%w; %s", err, map[string]string{
			"branch": "--branch takes one of these names or a part of it", "ignore": "--ignore " + decide.Key + " leaves it out", "heads": "or give --heads or --arch",
		}[decide.Argument])
	}
	return try.E1(read, err)
}

// vitFile is a transformer from a file of weights, and how its makers preprocess images.
type vitFile struct {
	*weights.Import
	preprocessing datasets.Preprocessing
	size          int // Height and width in pixels of the crop.
}

// open reads the file. It ends the verb with an error.
func (c *weightChoice) open(path string) (f vitFile) {
	f.Import = c.read(path)
	f.preprocessing, f.size, _ = try.E3(weights.ReadPreprocessing(path))
	return f
}

// readImage reads an image as the makers of the weights preprocess it.
func (f vitFile) readImage(path string) (evaluation.Image, error) {
	pixels, size, err := f.preprocessing.ReadFile(path, f.size, f.ViT.PatchSize)
	if err != nil {
		return evaluation.Image{}, err
	}
	image := evaluation.NewImage(pixels, size, f.preprocessing)
	image.Name = path
	return image, nil
}

// encoder puts the transformer on an engine, for batches of images. The caller closes it. It ends the verb with an error.
func (f vitFile) encoder(engine compute.Backend, batch int) *evaluation.Encoder {
	e := try.E1(evaluation.OpenEncoder(engine, f.Import, batch, 0))
	e.Preprocessing = f.preprocessing
	return e
}

// openEngine opens the engine and says which it is. It ends the verb with an error.
func openEngine() compute.Backend {
	engine := try.E1(backend.Open())
	fmt.Fprintf(os.Stderr, "engine: %s\n", backend.Engine())
	return engine
}

// requireWeights ends the verb if its flag of a file of weights is empty. The error names one that a run of the experiment pretrain has left, if there is one.
func requireWeights(file string) {
	if file == "" {
		left, name := pretrain.Trained("out")
		refuse(left != "", "--weights FILE is missing; %s has left %s", name, left)
		refuse(true, "--weights FILE is missing; \"semcon run pretrain\" leaves one, and \"semcon show\" a small one, pictures/encoder.safetensors")
	}
}

// setupCommand repairs the set-up of a checkout.
const setupCommand = "go run ./cmd/semcon lab --setup-only"

// openDevices opens the engine on a number of devices for a training that writes checkpoints every so often. It ends the verb with an error.
func openDevices(n int, checkpointEvery time.Duration) compute.Backend {
	refuse(n < 1, "--devices %d is not positive", n)
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

// newBar opens a bar on standard error, and say prints a line there.
func newBar(title string, total int) progress.Bar { return progress.New(os.Stderr, title, total) }
func say(line string)                             { fmt.Fprintln(os.Stderr, line) }

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

// locateSettings puts paths in the place of names of weights in settings. Verbs that only read records take what the cache has. It ends the verb with an error.
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
	c.Run = func(c *cobra.Command, names []string) {
		if *list && len(names) == 0 {
			printPublished(*format)
			return
		}
		wanted := weights.Naming(*naming)
		refuse(*list || len(names) != 1, "want one file of weights, or --list alone; got %s", listed(names))
		refuse(*out != "" && filepath.Ext(*out) != ".safetensors", "--out %s does not end with .safetensors", *out)
		refuse(wanted.Check() != nil, "--%v", wanted.Check())
		refuse(wanted == weights.Transformers && *out != "" && filepath.Base(*out) != weights.ModelFile,
			"--out %s: transformers only finds weights that are called %s, with a config.json beside them", *out, weights.ModelFile)
		refuse(*keepHead && wanted != weights.Timm, "--head: only timm's names leave room for a projection head")
		if *out != "" {
			requireWritableFile("out", *out)
		}
		names[0] = try.E1(hub.Locate(c.Context(), names[0], downloads))
		v := vitFile{Import: choice.read(names[0])}
		read, w := *v.Import, textOf(*format)
		fmt.Fprint(w, v.Import)
		if *out != "" {
			if !*keepHead {
				v.Head = nil
			}
			v.export(names[0], *out, wanted)
			fmt.Fprintf(w, "wrote %s\n", *out)
		}
		printAs(*format, "", imported{
			read.File, read.ViT.Name, read.Prefix, read.Matched, read.Reshaped, read.Interpolated, read.Missing, read.Unused, read.Ignored, *out,
		})
	}
	return c
}

// export writes imported weights with what belongs beside them. It ends the verb with an error.
func (v vitFile) export(source, out string, naming weights.Naming) {
	err := naming.Fits(v.ViT)
	fail(err != nil, "%s: %w", source, err)
	store := try.E1(v.Store())
	v.Release()
	metadata := map[string]string{
		"source": filepath.Base(source), "format": "pt", "architecture": v.ViT.Name, "positions": string(v.ViT.Positions), // Beside a config.json they count.
	}
	if len(v.Ignored) > 0 {
		metadata["ignored"] = strings.Join(v.Ignored, " ")
	}
	try.E(weights.Export(out, naming, store, "/", v.ViT, v.Head, metadata))
	preprocessing, size, _ := try.E3(weights.ReadPreprocessing(source))
	if filepath.Base(out) == weights.ModelFile {
		try.E(weights.WriteConfig(out, naming, v.ViT, preprocessing, size))
	}
	try.E(weights.Card{ViT: v.ViT, Naming: naming, Preprocessing: preprocessing, Size: size, Head: v.Head != nil, Facts: []weights.Fact{
		{Name: "Imported from", Text: filepath.Base(source) + ", " + try.E1(digestOf(source))}, {Name: "Its keys", Text: v.String()},
	}}.Write(out))
}
