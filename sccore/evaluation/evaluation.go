// Package evaluation evaluates frozen encoders, each by a stated protocol. An encoder, wrapped by [NewFeatureExtractor], and a dataset go in; what a
// protocol measures comes out. [During] evaluates along a training.
//
// Each protocol is an [Evaluation] with a line in [List]. Metrics belong in package metrics, trainable heads in package heads.
package evaluation

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/knn"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/train"
	"github.com/semcon/semcon/sccore/weights"
)

// Evaluation measures frozen encoders by a stated protocol. It is a struct of settings with JSON names, whose ranges
// [settings.Check] holds. The same value is what an experiment's cells measure,
// what "semcon evaluate NAME" runs, and, by [During], what looks at an encoder while it is trained.
type Evaluation interface {
	// Protocol describes the evaluation in one line, for records, tables and model cards.
	Protocol() string
	// Open opens the images that it measures on.
	Open(Source) (Data, error)
	// Measure measures an encoder.
	Measure(context.Context, *Encoder, Data) (Result, error)
}

// Encoder is a frozen encoder that is evaluated.
type Encoder struct {
	*FeatureExtractor
	Seed     uint64                                 // Draws all that an evaluation draws at random, but the images.
	Progress func(done, all int, what, note string) // Told how far a measurement of many parts, such as "videos", is. Optional.
	Owned    *model.Store                           // Its weights, which Close frees; nil if they are the caller's.
	File     string                                 // The file of its weights; empty for those that are in none.
}

// NewEncoder returns an encoder of weights at the root of a store, which becomes its own. It encodes batch images at a time.
func NewEncoder(b compute.Backend, v encoder.ViT, store *model.Store, batch int, seed uint64) (*Encoder, error) {
	extractor, err := NewFeatureExtractor(b, v, store, "/", batch)
	if err != nil {
		store.Finalize()
		return nil, err
	}
	return &Encoder{FeatureExtractor: extractor, Seed: seed, Owned: store}, nil
}

// OpenEncoder is [NewEncoder] of weights that were read from a file, which its error names.
func OpenEncoder(b compute.Backend, read *weights.Import, batch int, seed uint64) (*Encoder, error) {
	store, err := read.Store()
	if err != nil {
		return nil, err
	}
	e, err := NewEncoder(b, read.ViT, store, batch, seed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", read.File, err)
	}
	e.File = read.File
	return e, nil
}

// Close frees the memory of the encoder.
func (e *Encoder) Close() {
	e.FeatureExtractor.Close()
	if e.Owned != nil {
		e.Owned.Finalize()
	}
}

// progress tells how far a measurement is.
func (e *Encoder) progress(done, all int, what, format string, args ...any) {
	if e.Progress != nil {
		e.Progress(done, all, what, fmt.Sprintf(format, args...))
	}
}

// Result is what an evaluation has measured.
type Result struct {
	Numbers  []Number
	Protocol string                // Where the measurement says more about it than the evaluation.
	Report   any                   // All that was measured, as JSON; its String, if there is one, is for people. Nil for the numbers alone.
	Compared *metrics.Segmentation // A segmentation, which is compared with its commonest class everywhere; nil for other results.
}

// Number is one of the numbers of an evaluation.
type Number struct {
	Name    string             `json:"name"`            // "linear": tells it from the others, in columns and curves.
	Metric  string             `json:"metric"`          // "recall".
	Unit    string             `json:"unit,omitempty"`  // "%", or empty.
	Lower   bool               `json:"lower,omitempty"` // Lower is better.
	Value   float64            `json:"value"`
	Details map[string]float64 `json:"details,omitempty"` // Further numbers, by name.
}

// String returns the number for people.
func (n Number) String() string {
	return strings.TrimSpace(fmt.Sprintf("%-24s %8.2f %s", n.Name+", "+n.Metric, n.Value, n.Unit))
}

// During evaluates an encoder every given number of steps of its training; 0 turns it off. The extractor uses the store of the encoder that is trained and only
// reads its weights, so that a training ends with the same bytes with and without it. A point of the curve has the numbers as "NAME/NUMBER".
func During(every int, name string, evaluated Evaluation, e *Encoder, d Data) train.Evaluator {
	return train.Evaluator{Name: name, Every: every, Evaluate: func(ctx context.Context) (map[string]float64, error) {
		result, err := evaluated.Measure(ctx, e, d)
		values := map[string]float64{}
		for _, n := range result.Numbers {
			values[n.Name] = n.Value
		}
		return values, err
	}}
}

// Named is an evaluation of the list.
type Named struct {
	Name     string
	New      func() Evaluation // With its usual settings: a pointer to a struct.
	Sizes    []string          // The settings that hold the size of images; by default it is that of the weights.
	Datasets []string          // Names of the datasets that it can open.
	Training string            // What training images are for, if not training.
	Single   bool              // Its images have sizes of their own, and are encoded one by one.
}

// segmented are the names of the datasets with a class for every pixel.
var segmented = datasets.SegmentationKeys()

// List lists all evaluations of frozen encoders by name.
var List = []Named{
	{Name: "centroid", New: func() Evaluation { return new(NearestCentroid) }, Sizes: []string{"size"}, Datasets: segmented},
	{Name: "fcn", New: func() Evaluation { return &FCNProbe{linearSegmentation(), 256} }, Sizes: []string{"train", "test"}, Datasets: segmented},
	{Name: "in-context", New: func() Evaluation { return new(DefaultInContext()) }, Sizes: []string{"size"}, Datasets: segmented, Training: "memory"},
	{Name: "knn", New: func() Evaluation { return &KNN{Classifier: knn.DINOClassifier()} }, Sizes: []string{"size"}, Datasets: []string{ImageNet}},
	{Name: "linear", New: func() Evaluation { return new(linearSegmentation()) }, Sizes: []string{"train", "test"}, Datasets: segmented},
	{Name: "linear-classification", New: func() Evaluation { return &LinearClassification{LinearProbe: FastLinearProbe()} }, Sizes: []string{"size"}, Datasets: []string{ImageNet}},
	{Name: "lost", New: func() Evaluation { return &LOST{Expansion: 100} }, Datasets: []string{"voc2012"}, Single: true},
	{Name: "noise-rate", New: func() Evaluation { return &NoiseRate{Sample: PatchSample{Images: 2000, PerImage: 8}, Bins: 20} }, Sizes: []string{"sample.size"}, Datasets: segmented},
	{Name: "overclustering", New: func() Evaluation { return new(DefaultOverclustering()) }, Sizes: []string{"size"}, Datasets: segmented},
	{Name: "patches", New: func() Evaluation { return new(DefaultPatchRecall()) }, Sizes: []string{"size"}, Datasets: segmented},
	{Name: "spair", New: func() Evaluation { return &Keypoints{Alpha: 0.1} }, Sizes: []string{"size"}, Datasets: []string{"spair"}, Single: true},
	{Name: "spread", New: func() Evaluation { return &Spread{Images: 256} }, Sizes: []string{"size"}, Datasets: []string{ImageNet}},
	{Name: "tokencut", New: func() Evaluation { return &TokenCut{Threshold: 0.2} }, Datasets: []string{"voc2012"}, Single: true},
	{Name: "video", New: func() Evaluation { return new(DefaultLabelPropagation()) }, Datasets: []string{"davis"}},
}

// linearSegmentation is the segmentation of the list, of more epochs than the paper's.
func linearSegmentation() SegmentationProbe {
	p := DefaultSegmentationProbe()
	p.Epochs, p.Batch = 20, 32
	return p
}

// ByName returns an evaluation of the list.
func ByName(name string) (Named, error) {
	i := slices.IndexFunc(List, func(n Named) bool { return n.Name == name })
	if i < 0 {
		return Named{}, fmt.Errorf("no evaluation %q; there are %s", name, strings.Join(Names(), ", "))
	}
	return List[i], nil
}

// Names returns the names of the evaluations, sorted.
func Names() (names []string) {
	for _, n := range List {
		names = append(names, n.Name)
	}
	slices.Sort(names)
	return names
}
