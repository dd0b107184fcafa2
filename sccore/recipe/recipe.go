// Package recipe trains with the paper's method in stages ("Training pipeline"). A [Stage] is a training as a value: what it starts from, what it trains with, and
// the neighbours that it draws positives from. A [Trainer] runs stages of one shape, with curves, the best encoder and the diagnostics on the way. The experiments
// that train, and training on a folder of photographs, list stages and say what is recorded of them.
package recipe

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/knn"
	"github.com/semcon/semcon/sccore/progress"
)

// Files in a stage's folder besides the checkpoints. bestFile exists only with labels; see [improved].
const (
	// NeighboursFile holds neighbours, in the folder that the stages of a run share.
	NeighboursFile = "neighbours.safetensors"
	FinalFile      = "final.safetensors" // The last checkpoint.
	OnlineFile     = "online.safetensors"
	targetFile     = "target.safetensors"
	bestFile       = "best.safetensors"
)

// Stage is a training as a value. Files of other stages are named relative to the folder that the stages of a run share.
type Stage struct {
	Name       string        // Names the stage's folder, and cells that share a compiled step.
	Config     sccore.Config // What it trains with.
	After      string        // The file of the stage that it starts from, such as "first/final.safetensors"; empty for Init.
	Init       string        // A file of weights that it starts from; empty for random weights, which the seed draws.
	Ignore     []string      // Patterns of the keys in Init that are left out.
	Untrained  bool          // The stage is what it starts from: nothing is trained.
	Neighbours string        // The file of neighbours: a stage that draws positives reads them, and another one finds them with its encoder. Empty for none.
}

// Steps is the number of steps that the stage trains.
func (s Stage) Steps() int {
	if s.Untrained {
		return 0
	}
	return s.Config.Steps
}

// FLOPs is what the stage computes in products on objects and scenes; see [sccore.Config.FLOPs].
func (s Stage) FLOPs() float64 { return float64(s.Steps()) * s.Config.FLOPs() }

// drawsPositives reports whether the stage needs neighbours.
func (s Stage) drawsPositives() bool { return s.Config.Lambdas.ImageConcentration > 0 }

// Trainer is the compiled step of a stage, with the encoder that is measured: the online branch's, as in the paper ("Evaluation protocol"). It serves all
// stages of the same shape.
type Trainer struct {
	*sccore.Trainer
	Frozen *evaluation.FeatureExtractor

	backend compute.Backend
}

// New compiles a stage.
func New(b compute.Backend, data sccore.Data, s Stage) (*Trainer, error) {
	trainer, err := sccore.NewTrainer(b, data, s.Config)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	t := &Trainer{Trainer: trainer, backend: b}
	t.Frozen, err = t.Extractor(true)
	return t, err
}

// Extractor returns an extractor of the encoder. Without the filter it serves before training, when the filter has random weights, which would change the features of
// a file. The caller closes it.
func (t *Trainer) Extractor(filter bool) (*evaluation.FeatureExtractor, error) {
	vit, store, scope := t.Encoder(sccore.Online)
	if !filter {
		vit.Prototypes = 0
	}
	frozen, err := evaluation.NewFeatureExtractor(t.backend, vit, store, scope, evaluation.EncodeBatch)
	if err == nil && t.Frozen != nil {
		frozen.Skipped = t.Frozen.Skipped
	}
	return frozen, err
}

// Report makes skip receive the images that cannot be read, in training and in measuring.
func (t *Trainer) Report(skip func(file, reason string)) {
	t.Skipped = func(image datasets.Skipped) { skip(image.File, image.Reason) }
	t.Frozen.Skipped = t.Skipped
}

// Close frees the device's memory.
func (t *Trainer) Close() {
	if t != nil {
		t.Frozen.Close()
		t.Trainer.Close()
	}
}

// Start sets the weights that a stage starts from. root is the folder that the stages of a run share.
func (t *Trainer) Start(s Stage, root string, seed uint64) error {
	switch {
	case s.After != "":
		return t.BeginFrom(filepath.Join(root, s.After), seed)
	case s.Init != "":
		return t.BeginFrom(s.Init, seed, s.Ignore...)
	}
	return t.Begin(seed)
}

// Neighbours are the neighbours of object-centric images: a positive is drawn from the nearest images by [CLS] features.
type Neighbours struct {
	Path   string          // The file that keeps them.
	Source string          // Says which images were compared, and by which run.
	Images datasets.Source // The object-centric images.
	Size   int             // Height and width in pixels at which they are encoded.
	Count  int             // How many neighbours an image has, if there are as many.
	Bar    progress.Bar    // Shows how many images are encoded.
}

// Find reads the neighbours from their file. If there is no file, it finds them with a frozen encoder, if there is one, and writes the file.
func (n Neighbours) Find(ctx context.Context, b compute.Backend, frozen *evaluation.FeatureExtractor) (*knn.Neighbours, error) {
	return knn.Stored(ctx, b, n.Path, n.Images.Len(), n.Count, n.Source, func() (class []float32, dim int, err error) {
		if frozen == nil {
			return nil, 0, fmt.Errorf("%s: there are no neighbours yet", n.Path)
		}
		for features, err := range frozen.Features(evaluation.ImagesOf(n.Images, frozen.Preprocessing, n.Size, n.Images.Len(), frozen.Skipped), false) {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return nil, 0, err
			}
			class = append(class, features.Class...)
			n.Bar.Set(len(class)/len(features.Class), "")
		}
		return class, frozen.ViT.Dim, nil
	})
}

// StartForEncoder sets the weights that a stage starts from, for its encoder alone: it is what finds the neighbours that a start requires, so any will do.
func (t *Trainer) StartForEncoder(s Stage, root string, seed uint64, images int) error {
	t.SetNeighbours(&knn.Neighbours{K: 1, Indices: make([]int32, images)})
	return t.Start(s, root, seed)
}
