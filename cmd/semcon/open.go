package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/experiments/pretrain"
	"github.com/semcon/semcon/sccore/weights"
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

// read checks the flags and reads the file.
func (c *weightChoice) read(path string) (*weights.Import, error) {
	var want encoder.ViT
	if c.arch != "" {
		var err error
		if want, err = encoder.ViTByName(c.arch); err != nil {
			return nil, usagef("--arch: %v", err)
		}
		if c.heads != 0 || c.epsilon != 0 {
			return nil, usagef("--arch already says the heads and the epsilon")
		}
	}
	if c.positions != "" {
		want.Positions = encoder.Positions(c.positions)
		if err := want.Positions.Check(); err != nil {
			return nil, usagef("--%v", err)
		}
	}
	switch {
	case c.heads < 0 || c.heads > 1<<12:
		return nil, usagef("--heads %d is out of range", c.heads)
	case !(c.epsilon >= 0 && c.epsilon < 1):
		return nil, usagef("--epsilon %g is not between 0 and 1", c.epsilon)
	}
	if want.Dim == 0 {
		want.NumHeads, want.Epsilon = c.heads, c.epsilon
	}
	read, err := weights.ReadViT(path, want, c.branch, c.ignore...)
	if decide := (weights.Undecided{}); errors.As(err, &decide) {
		err = fmt.Errorf("%w; %s", err, map[string]string{
			"branch": "--branch takes one of these names or a part of it", "ignore": "--ignore " + decide.Key + " leaves it out", "heads": "or give --heads or --arch",
		}[decide.Argument])
	}
	return read, err
}

// vitFile is a transformer from a file of weights, and how its makers preprocess images.
type vitFile struct {
	*weights.Import
	preprocessing datasets.Preprocessing
	size          int // Height and width in pixels of the crop.
}

// open reads the file.
func (c *weightChoice) open(path string) (f vitFile, err error) {
	if f.Import, err = c.read(path); err != nil {
		return f, err
	}
	f.preprocessing, f.size, _, err = weights.ReadPreprocessing(path)
	return f, err
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

// encoder puts the transformer on an engine, for batches of images. The caller closes it.
func (f vitFile) encoder(engine compute.Backend, batch int) (*evaluation.Encoder, error) {
	e, err := evaluation.OpenEncoder(engine, f.Import, batch, 0)
	if err == nil {
		e.Preprocessing = f.preprocessing
	}
	return e, err
}

// openEngine opens the engine and says which it is.
func openEngine() (compute.Backend, error) {
	engine, err := backend.Open()
	if err == nil {
		fmt.Fprintf(os.Stderr, "engine: %s\n", backend.Engine())
	}
	return engine, err
}

// noWeights is the error of a missing file of weights. It names one that a run of the experiment pretrain has left, if there is one.
func noWeights() error {
	if file, name := pretrain.Trained("out"); file != "" {
		return usagef("--weights FILE is missing; %s has left %s", name, file)
	}
	return usagef("--weights FILE is missing; \"semcon run pretrain\" leaves one, and \"semcon show\" a small one, pictures/encoder.safetensors")
}

// setupCommand repairs the set-up of a checkout.
const setupCommand = "go run ./cmd/semcon lab --setup-only"

// openDevices opens the engine on a number of devices for a training that writes checkpoints every so often.
func openDevices(n int, checkpointEvery time.Duration) (compute.Backend, error) {
	switch {
	case n < 1:
		return nil, usagef("--devices %d is not positive", n)
	case checkpointEvery < 0:
		return nil, usagef("--checkpoint-every %v is negative", checkpointEvery)
	}
	return backend.OpenDevices(n)
}

// announceEngine prints the engine of a run, its devices if there are several, and a warning where there is a faster engine.
func announceEngine(w io.Writer, devices int) {
	shared := ""
	if devices > 1 {
		shared = fmt.Sprintf(", %d devices", devices)
	}
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
